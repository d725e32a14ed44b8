// The session of a worker or an agent with the server: asks for work, keeps leases alive, runs
// steps, delivers logs and results. The other side is AgentService of
// proto/gq/v1/agent_service.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/reporter.h"
#include "common/rpc/channel.h"
#include "common/rpc/step_runner.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::rpc {

// The boards of an agent. Thread-safe; calls return at once.
class BoardSource {
 public:
  virtual ~BoardSource() = default;
  virtual std::vector<gq::v1::BoardReport> Boards() = 0;
  // Starts a health check; when it is over, Boards() tells and AgentSession::Wake() makes it known.
  virtual void StartHealthCheck(const std::string& board) = 0;
};

struct AgentSessionOptions {
  // Name on the server, e.g. `worker-1`.
  std::string agent_id;
  // Program version and host name, for people.
  std::string version;
  std::string host;
  // `cpu`, `compile:<backend>`, `exec:<device>`.
  std::vector<std::string> capabilities;
  // Leases held at once.
  int slots = 1;
  // Folder for leases, spooled logs and cached inputs; made when missing, locked against a second
  // process.
  std::filesystem::path state_dir;
  // Beyond the lease's time to live the server waits this long; work stops by itself after both.
  absl::Duration grace = absl::Seconds(30);
  // Longest time between two calls while progress changes.
  absl::Duration progress_interval = absl::Seconds(1);
  // Logs are sent at the latest after this, and not more often than `log_min_interval`.
  absl::Duration log_min_interval = absl::Milliseconds(20);
  // Bytes of inputs kept for later leases.
  int64_t cache_bytes = int64_t{8} << 30;
  // What the session itself has to say (connection lost, lease lost); may be null.
  base::Reporter* reporter = nullptr;
};

// State on disk, below state_dir:
//   leases/KEY/lease.pb   written before the work starts; found at a start without result.pb, the
//                         work was cut short and is reported LOST
//   leases/KEY/log        spool, kept until all of it is acknowledged
//   leases/KEY/result.pb  outcome with uploaded artifacts, kept until the server acknowledges it
//   leases/KEY/work/      WORKDIR (step_layout.h)
//   cache/                inputs by digest
//   lock                  held by the running session
//
// Rules: every write carries lease and generation; `LEASE_LOST` ends the work at once and drops the
// lease. Without an answer for time to live + grace all work is stopped. An assignment that comes
// again is recognised. A result is reported only when the whole log is stored, and again until it
// is acknowledged.
class AgentSession {
 public:
  // `runner` and `boards` (may be null) outlive the session.
  AgentSession(AgentSessionOptions options, std::shared_ptr<Channel> channel, StepRunner* runner,
               BoardSource* boards = nullptr);
  ~AgentSession();
  AgentSession(const AgentSession&) = delete;
  AgentSession& operator=(const AgentSession&) = delete;

  // Works until a drain is complete or Stop() was called. Blocks. Fails with kDataFolderLocked,
  // kFileUnwritable, or with the server's kUnauthenticated or kPermissionDenied; an unreachable
  // server is waited for.
  absl::Status Run();

  // Takes no new work; Run() returns when the current leases are done and acknowledged.
  // Thread-safe.
  void Drain();
  // Ends the current leases as LOST, tells the server if it answers within two seconds, and makes
  // Run() return. Thread-safe.
  void Stop();
  // Something that the server should know has changed (a board). Thread-safe.
  void Wake();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gq::rpc
