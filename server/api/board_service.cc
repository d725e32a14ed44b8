#include "server/api/board_service.h"

#include <algorithm>
#include <deque>
#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/api/pull_stream.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

class BoardStream final : public PullStream<gq::v1::Board> {
 public:
  explicit BoardStream(const Backend& backend)
      : PullStream(backend, backend.executor, "BoardService.WatchBoards") {}

 protected:
  absl::StatusOr<Pull> Next(gq::v1::Board* board, bool) override {
    if (!subscribed_) {
      subscription_ = backend().hub.Subscribe(std::string(kBoardsTopic), Waker());
      subscribed_ = true;
    }
    if (changed_.empty()) GQ_RETURN_IF_ERROR(FindChanges());
    if (changed_.empty()) return Pull::kWait;
    *board = std::move(changed_.front());
    changed_.pop_front();
    return Pull::kSend;
  }

 private:
  absl::Status FindChanges() {
    GQ_ASSIGN_OR_RETURN(auto boards, backend().scheduler.Boards());
    for (BoardRecord& record : boards) {
      // That an agent is alive is no change.
      gq::v1::Board compared = record.board;
      compared.clear_last_seen();
      std::string bytes = compared.SerializeAsString();
      std::string& known = known_[record.board.name()];
      if (known == bytes) continue;
      known = std::move(bytes);
      changed_.push_back(std::move(record.board));
    }
    return absl::OkStatus();
  }

  bool subscribed_ = false;
  std::map<std::string, std::string> known_;
  std::deque<gq::v1::Board> changed_;
  ChangeHub::Subscription subscription_;
};

}  // namespace

absl::Status BoardService::Load(std::string_view name, gq::v1::Board* board) {
  GQ_ASSIGN_OR_RETURN(auto boards, backend_.scheduler.Boards());
  for (BoardRecord& record : boards) {
    if (record.board.name() == name) {
      *board = std::move(record.board);
      return absl::OkStatus();
    }
  }
  return MakeError(Reason::kNotFound, StrCat("there is no board '", name, "'"),
                   "`gq boards list` shows the boards");
}

grpc::ServerUnaryReactor* BoardService::ListBoards(grpc::CallbackServerContext* context,
                                                   const gq::v1::ListBoardsRequest*,
                                                   gq::v1::ListBoardsResponse* response) {
  return RunCall(backend_, context, "BoardService.ListBoards",
                 [=, this](const Caller&) -> absl::Status {
                   GQ_ASSIGN_OR_RETURN(auto boards, backend_.scheduler.Boards());
                   for (BoardRecord& record : boards) {
                     *response->add_boards() = std::move(record.board);
                   }
                   return absl::OkStatus();
                 });
}

grpc::ServerUnaryReactor* BoardService::GetBoard(grpc::CallbackServerContext* context,
                                                 const gq::v1::GetBoardRequest* request,
                                                 gq::v1::Board* response) {
  return RunCall(backend_, context, "BoardService.GetBoard",
                 [=, this](const Caller&) { return Load(request->name(), response); });
}

grpc::ServerWriteReactor<gq::v1::Board>* BoardService::WatchBoards(
    grpc::CallbackServerContext* context, const gq::v1::WatchBoardsRequest*) {
  return BoardStream::Start(std::make_shared<BoardStream>(backend_),
                            Identify(backend_, *context, "BoardService.WatchBoards"));
}

grpc::ServerUnaryReactor* BoardService::ReserveBoard(grpc::CallbackServerContext* context,
                                                     const gq::v1::ReserveBoardRequest* request,
                                                     gq::v1::Board* response) {
  return RunCall(backend_, context, "BoardService.ReserveBoard",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kSubmitter));
                   const absl::Time now = backend_.clock.Now();
                   const absl::Time until = absl::FromUnixSeconds(request->until().seconds());
                   if (until <= now) {
                     return MakeError(Reason::kInvalidFlag,
                                      "the end of the reservation is in the past");
                   }
                   if (until > now + backend_.limits.max_reservation) {
                     return MakeError(Reason::kInvalidFlag,
                                      StrCat("a reservation lasts at most ",
                                             absl::FormatDuration(backend_.limits.max_reservation)),
                                      "extend it later");
                   }
                   GQ_RETURN_IF_ERROR(backend_.ledger.ReserveBoard(
                       caller.AsActor(), request->name(), until, request->note()));
                   backend_.scheduler.BoardsChanged();
                   return Load(request->name(), response);
                 });
}

grpc::ServerUnaryReactor* BoardService::ReleaseBoard(grpc::CallbackServerContext* context,
                                                     const gq::v1::ReleaseBoardRequest* request,
                                                     gq::v1::Board* response) {
  return RunCall(backend_, context, "BoardService.ReleaseBoard",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kSubmitter));
                   GQ_RETURN_IF_ERROR(backend_.ledger.ReleaseBoard(
                       caller.AsActor(), request->name(), caller.principal.IsOperator()));
                   backend_.scheduler.BoardsChanged();
                   return Load(request->name(), response);
                 });
}

grpc::ServerUnaryReactor* BoardService::SetBoardHealth(grpc::CallbackServerContext* context,
                                                       const gq::v1::SetBoardHealthRequest* request,
                                                       gq::v1::Board* response) {
  return RunCall(backend_, context, "BoardService.SetBoardHealth",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kOperator));
                   if (request->health() == gq::v1::BOARD_HEALTH_UNSPECIFIED ||
                       !gq::v1::BoardHealth_IsValid(request->health())) {
                     return MakeError(Reason::kInvalidFlag, "`health` is required");
                   }
                   GQ_RETURN_IF_ERROR(backend_.ledger.SetBoardHealth(
                       caller.AsActor(), request->name(), request->health(), request->note()));
                   backend_.scheduler.BoardsChanged();
                   return Load(request->name(), response);
                 });
}

grpc::ServerUnaryReactor* BoardService::DrainBoards(grpc::CallbackServerContext* context,
                                                    const gq::v1::DrainBoardsRequest* request,
                                                    gq::v1::DrainBoardsResponse* response) {
  return RunCall(
      backend_, context, "BoardService.DrainBoards",
      [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kOperator));
        GQ_ASSIGN_OR_RETURN(
            const auto names,
            backend_.ledger.DrainBoards(caller.AsActor(), request->pattern(), request->drain()));
        backend_.scheduler.BoardsChanged();
        GQ_ASSIGN_OR_RETURN(auto boards, backend_.scheduler.Boards());
        for (BoardRecord& record : boards) {
          if (std::find(names.begin(), names.end(), record.board.name()) != names.end()) {
            *response->add_boards() = std::move(record.board);
          }
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* BoardService::RunHealthCheck(grpc::CallbackServerContext* context,
                                                       const gq::v1::RunHealthCheckRequest* request,
                                                       gq::v1::Board* response) {
  return RunCall(
      backend_, context, "BoardService.RunHealthCheck",
      [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kOperator));
        GQ_RETURN_IF_ERROR(backend_.ledger.RequestHealthCheck(caller.AsActor(), request->name()));
        backend_.scheduler.BoardsChanged();
        return Load(request->name(), response);
      });
}

grpc::ServerUnaryReactor* BoardService::RemoveBoard(grpc::CallbackServerContext* context,
                                                    const gq::v1::RemoveBoardRequest* request,
                                                    gq::v1::RemoveBoardResponse*) {
  return RunCall(
      backend_, context, "BoardService.RemoveBoard",
      [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kOperator));
        GQ_RETURN_IF_ERROR(backend_.ledger.RemoveBoard(caller.AsActor(), request->name()));
        backend_.scheduler.BoardsChanged();
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* BoardService::ListCapabilities(
    grpc::CallbackServerContext* context, const gq::v1::ListCapabilitiesRequest*,
    gq::v1::ListCapabilitiesResponse* response) {
  return RunCall(backend_, context, "BoardService.ListCapabilities",
                 [=, this](const Caller&) -> absl::Status {
                   GQ_ASSIGN_OR_RETURN(auto capabilities, backend_.scheduler.Capabilities());
                   for (auto& entry : capabilities) {
                     *response->add_capabilities() = std::move(entry);
                   }
                   return absl::OkStatus();
                 });
}

}  // namespace gq::server
