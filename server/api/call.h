// How a call is handled: off gRPC's threads, with the principal of this very call, errors mapped to
// the wire, one line of log.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/auth/authenticator.h"
#include "server/blobs/blob_store.h"
#include "server/events/change_hub.h"
#include "server/events/executor.h"
#include "server/ledger/ledger.h"
#include "server/logs/log_store.h"
#include "server/scheduler/scheduler.h"

namespace gq::server {

struct ApiLimits {
  // Streams open at once, over all principals.
  int max_streams = 2000;
  // Longest reservation of a board.
  absl::Duration max_reservation = absl::Hours(24);
  // Free space below which nothing new is taken in.
  int64_t min_free_bytes = int64_t{512} << 20;
  // Answers to idle and to busy agents are held back for so long at most.
  absl::Duration idle_hold = absl::Seconds(40);
  absl::Duration idle_hold_jitter = absl::Seconds(5);
  absl::Duration busy_hold = absl::Seconds(10);
  // Signs of life on quiet streams.
  absl::Duration heartbeat = absl::Seconds(15);
};

// What the services work with. Everything outlives them.
struct Backend {
  Ledger& ledger;
  Scheduler& scheduler;
  BlobStore& blobs;
  LogStore& logs;
  ChangeHub& hub;
  Authenticator& authenticator;
  Executor& executor;       // calls that mostly wait for the ledger
  Executor& blob_executor;  // bulk data
  const base::Clock& clock;
  ApiLimits limits;
  std::string version;
  absl::Time start_time;
};

// Who makes a call, and which.
struct Caller {
  Principal principal;
  std::string_view method;  // e.g. `JobService.CreateJob`

  Actor AsActor() const { return {principal.name, std::string(method)}; }
  Viewer AsViewer() const { return {principal.name, principal.IsOperator()}; }
};

// The caller of this call; kUnauthenticated.
absl::StatusOr<Caller> Identify(const Backend& backend, const grpc::ServerContextBase& context,
                                std::string_view method);

// The wire form of an error, with a delay to wait where the server asks for one. Internal errors
// are logged.
grpc::Status Respond(std::string_view method, const absl::Status& status);

// Runs `work` on the executor and finishes the call with its result. What `work` refers to
// (request, response) lives until then.
grpc::ServerUnaryReactor* RunCall(const Backend& backend, grpc::CallbackServerContext* context,
                                  std::string_view method,
                                  std::function<absl::Status(const Caller&)> work);

// The same for work that may have to wait: without a value it is run again a little later.
grpc::ServerUnaryReactor* RunCallWhenReady(
    const Backend& backend, grpc::CallbackServerContext* context, std::string_view method,
    std::function<std::optional<absl::Status>(const Caller&)> work);

// The timestamp of a time.
void SetTime(absl::Time time, google::protobuf::Timestamp* timestamp);

}  // namespace gq::server
