#include "server/api/call.h"

#include <exception>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/status_mapping.h"
#include "server/ledger/job_rows.h"
#include "spdlog/spdlog.h"

namespace gq::server {
namespace {

using base::Reason;

constexpr absl::Duration kTryAgain = absl::Milliseconds(50);

using ReadyWork = std::function<std::optional<absl::Status>(const Caller&)>;

// Third-party code below a handler may throw; a call must never end the server.
std::optional<absl::Status> RunGuarded(const ReadyWork& work, const Caller& caller) {
  try {
    return work(caller);
  } catch (const std::exception& error) {
    return base::MakeError(Reason::kInternal, error.what());
  }
}

void RunOnce(const Backend& backend, grpc::ServerUnaryReactor* reactor, Caller caller,
             std::shared_ptr<ReadyWork> work) {
  const std::optional<absl::Status> status = RunGuarded(*work, caller);
  if (status) {
    reactor->Finish(Respond(caller.method, *status));
    return;
  }
  backend.executor.PostAfter(
      kTryAgain, [&backend, reactor, caller, work] { RunOnce(backend, reactor, caller, work); });
}

}  // namespace

absl::StatusOr<Caller> Identify(const Backend& backend, const grpc::ServerContextBase& context,
                                std::string_view method) {
  GQ_ASSIGN_OR_RETURN(Principal principal, backend.authenticator.Authenticate(context));
  return Caller{std::move(principal), method};
}

grpc::Status Respond(std::string_view method, const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const Reason reason = base::GetReason(status);
  if (reason == Reason::kInternal || reason == Reason::kLedgerFailed) {
    spdlog::error("call failed method={}: {}", method, status.ToString());
  }
  const bool wait = reason == Reason::kDraining || reason == Reason::kOverloaded;
  return rpc::ToGrpcStatus(status, wait ? absl::Seconds(5) : absl::ZeroDuration());
}

grpc::ServerUnaryReactor* RunCallWhenReady(const Backend& backend,
                                           grpc::CallbackServerContext* context,
                                           std::string_view method, ReadyWork work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<Caller> caller = Identify(backend, *context, method);
  if (!caller.ok()) {
    reactor->Finish(Respond(method, caller.status()));
    return reactor;
  }
  auto shared = std::make_shared<ReadyWork>(std::move(work));
  backend.executor.Post([&backend, reactor, caller = *std::move(caller), shared] {
    RunOnce(backend, reactor, caller, shared);
  });
  return reactor;
}

grpc::ServerUnaryReactor* RunCall(const Backend& backend, grpc::CallbackServerContext* context,
                                  std::string_view method,
                                  std::function<absl::Status(const Caller&)> work) {
  return RunCallWhenReady(backend, context, method, [work = std::move(work)](const Caller& caller) {
    return std::optional(work(caller));
  });
}

void SetTime(absl::Time time, google::protobuf::Timestamp* timestamp) {
  SetTimestamp(absl::ToUnixMicros(time), timestamp);
}

}  // namespace gq::server
