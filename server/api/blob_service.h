// gq.v1.BlobService.
#pragma once

#include "gq/v1/blob_service.grpc.pb.h"
#include "server/api/call.h"

namespace gq::server {

class BlobService final : public gq::v1::BlobService::CallbackService {
 public:
  explicit BlobService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* FindMissingBlobs(grpc::CallbackServerContext* context,
                                             const gq::v1::FindMissingBlobsRequest* request,
                                             gq::v1::FindMissingBlobsResponse* response) override;
  grpc::ServerReadReactor<gq::v1::WriteRequest>* Write(grpc::CallbackServerContext* context,
                                                       gq::v1::WriteResponse* response) override;
  grpc::ServerUnaryReactor* QueryWriteStatus(grpc::CallbackServerContext* context,
                                             const gq::v1::QueryWriteStatusRequest* request,
                                             gq::v1::QueryWriteStatusResponse* response) override;
  grpc::ServerWriteReactor<gq::v1::ReadResponse>* Read(grpc::CallbackServerContext* context,
                                                       const gq::v1::ReadRequest* request) override;

 private:
  const Backend& backend_;
};

}  // namespace gq::server
