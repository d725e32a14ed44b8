// gq.v1.AgentService.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gq/v1/agent_service.grpc.pb.h"
#include "server/api/call.h"

namespace gq::server {

class SyncCall;

// The call of Synchronize that each agent has open, if any. Thread-safe.
class OpenSyncCalls {
 public:
  // Makes `call` the agent's one; the one before answers at once.
  void Replace(const std::string& agent, const std::shared_ptr<SyncCall>& call);

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<SyncCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

class AgentService final : public gq::v1::AgentService::CallbackService {
 public:
  explicit AgentService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* Synchronize(grpc::CallbackServerContext* context,
                                        const gq::v1::SynchronizeRequest* request,
                                        gq::v1::SynchronizeResponse* response) override;
  grpc::ServerUnaryReactor* AppendLog(grpc::CallbackServerContext* context,
                                      const gq::v1::AppendLogRequest* request,
                                      gq::v1::AppendLogResponse* response) override;
  grpc::ServerUnaryReactor* ReportIteration(grpc::CallbackServerContext* context,
                                            const gq::v1::ReportIterationRequest* request,
                                            gq::v1::ReportIterationResponse* response) override;

 private:
  const Backend& backend_;
  OpenSyncCalls open_calls_;
};

}  // namespace gq::server
