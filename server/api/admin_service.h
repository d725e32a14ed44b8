// gq.v1.AdminService.
#pragma once

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

 private:
  const Backend& backend_;
};

}  // namespace gq::server
