// gq.v1.AdminService.
#pragma once

#include "absl/synchronization/mutex.h"
#include "gq/v1/admin_service.grpc.pb.h"
#include "server/api/call.h"

namespace gq::server {

class AdminService final : public gq::v1::AdminService::CallbackService {
 public:
  explicit AdminService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const gq::v1::GetStatusRequest* request,
                                      gq::v1::ServerStatus* response) override;
  grpc::ServerUnaryReactor* Backup(grpc::CallbackServerContext* context,
                                   const gq::v1::BackupRequest* request,
                                   gq::v1::BackupResponse* response) override;
  grpc::ServerUnaryReactor* CollectGarbage(grpc::CallbackServerContext* context,
                                           const gq::v1::CollectGarbageRequest* request,
                                           gq::v1::CollectGarbageResponse* response) override;

  grpc::ServerUnaryReactor* CreateEnrolment(grpc::CallbackServerContext* context,
                                            const gq::v1::CreateEnrolmentRequest* request,
                                            gq::v1::CreateEnrolmentResponse* response) override;
  grpc::ServerUnaryReactor* ClaimEnrolment(grpc::CallbackServerContext* context,
                                           const gq::v1::ClaimEnrolmentRequest* request,
                                           gq::v1::ClaimEnrolmentResponse* response) override;
  grpc::ServerUnaryReactor* ListAgents(grpc::CallbackServerContext* context,
                                       const gq::v1::ListAgentsRequest* request,
                                       gq::v1::ListAgentsResponse* response) override;
  grpc::ServerUnaryReactor* RevokeAgent(grpc::CallbackServerContext* context,
                                        const gq::v1::RevokeAgentRequest* request,
                                        gq::v1::RevokeAgentResponse* response) override;

 private:
  const Backend& backend_;
  // One exchange of an enrolment token at a time, so that a token works once.
  absl::Mutex claim_mutex_;
};

}  // namespace gq::server
