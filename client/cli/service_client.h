// The services of a server as plain calls. All block, all have deadlines; errors are those of the
// server, or SERVER_UNREACHABLE.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_mapping.h"
#include "gq/v1/admin_service.grpc.pb.h"
#include "gq/v1/board_service.grpc.pb.h"
#include "gq/v1/job_service.grpc.pb.h"

namespace gq::cli {

// Thread-safe.
class ServiceClient {
 public:
  explicit ServiceClient(std::shared_ptr<rpc::Channel> channel);

  rpc::Channel& channel() { return *channel_; }
  const std::shared_ptr<rpc::Channel>& shared_channel() const { return channel_; }

  // One call of one service, for example Call(&JobService::Stub::GetJob, request).
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request,
                                absl::Duration timeout = rpc::kUnaryTimeout) {
    grpc::ClientContext context;
    channel_->Prepare(context, timeout);
    Response response;
    const grpc::Status status = (StubOf<Stub>().*method)(&context, request, &response);
    if (!status.ok()) return Explain(rpc::FromGrpcStatus(status));
    return response;
  }

  // Creates a job; the same request is sent again while the server cannot be reached, for up to a
  // minute. Its request id makes that safe.
  absl::StatusOr<gq::v1::Job> CreateJob(const gq::v1::CreateJobRequest& request,
                                        std::stop_token stop);
  // `id` may be a prefix or `@last`.
  absl::StatusOr<gq::v1::Job> GetJob(const std::string& id);
  absl::StatusOr<std::vector<gq::v1::Iteration>> ListIterations(const std::string& id);
  absl::StatusOr<std::vector<gq::v1::Artifact>> ListArtifacts(const std::string& id);
  absl::StatusOr<std::string> GetReport(const std::string& id);

  // Passes the events of a job on until its final one; goes on after a lost connection. kCancelled
  // on a stop.
  absl::Status WatchJob(const std::string& id,
                        const std::function<void(const gq::v1::JobEvent&)>& sink,
                        std::stop_token stop);

 private:
  template <typename Stub>
  Stub& StubOf() {
    if constexpr (std::is_same_v<Stub, gq::v1::JobService::Stub>) {
      return *jobs_;
    } else if constexpr (std::is_same_v<Stub, gq::v1::BoardService::Stub>) {
      return *boards_;
    } else {
      return *admin_;
    }
  }
  // Names the server in the error when it cannot be reached.
  absl::Status Explain(const absl::Status& status) const;

  std::shared_ptr<rpc::Channel> channel_;
  std::unique_ptr<gq::v1::JobService::Stub> jobs_;
  std::unique_ptr<gq::v1::BoardService::Stub> boards_;
  std::unique_ptr<gq::v1::AdminService::Stub> admin_;
};

}  // namespace gq::cli
