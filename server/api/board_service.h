// gq.v1.BoardService.
#pragma once

#include "gq/v1/board_service.grpc.pb.h"
#include "server/api/call.h"

namespace gq::server {

class BoardService final : public gq::v1::BoardService::CallbackService {
 public:
  explicit BoardService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* ListBoards(grpc::CallbackServerContext* context,
                                       const gq::v1::ListBoardsRequest* request,
                                       gq::v1::ListBoardsResponse* response) override;
  grpc::ServerUnaryReactor* GetBoard(grpc::CallbackServerContext* context,
                                     const gq::v1::GetBoardRequest* request,
                                     gq::v1::Board* response) override;
  grpc::ServerWriteReactor<gq::v1::Board>* WatchBoards(
      grpc::CallbackServerContext* context, const gq::v1::WatchBoardsRequest* request) override;
  grpc::ServerUnaryReactor* ReserveBoard(grpc::CallbackServerContext* context,
                                         const gq::v1::ReserveBoardRequest* request,
                                         gq::v1::Board* response) override;
  grpc::ServerUnaryReactor* ReleaseBoard(grpc::CallbackServerContext* context,
                                         const gq::v1::ReleaseBoardRequest* request,
                                         gq::v1::Board* response) override;
  grpc::ServerUnaryReactor* SetBoardHealth(grpc::CallbackServerContext* context,
                                           const gq::v1::SetBoardHealthRequest* request,
                                           gq::v1::Board* response) override;
  grpc::ServerUnaryReactor* DrainBoards(grpc::CallbackServerContext* context,
                                        const gq::v1::DrainBoardsRequest* request,
                                        gq::v1::DrainBoardsResponse* response) override;
  grpc::ServerUnaryReactor* RunHealthCheck(grpc::CallbackServerContext* context,
                                           const gq::v1::RunHealthCheckRequest* request,
                                           gq::v1::Board* response) override;
  grpc::ServerUnaryReactor* RemoveBoard(grpc::CallbackServerContext* context,
                                        const gq::v1::RemoveBoardRequest* request,
                                        gq::v1::RemoveBoardResponse* response) override;
  grpc::ServerUnaryReactor* ListCapabilities(grpc::CallbackServerContext* context,
                                             const gq::v1::ListCapabilitiesRequest* request,
                                             gq::v1::ListCapabilitiesResponse* response) override;

 private:
  absl::Status Load(std::string_view name, gq::v1::Board* board);

  const Backend& backend_;
};

}  // namespace gq::server
