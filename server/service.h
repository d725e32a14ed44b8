// A running server in one object: everything behind the two ports.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/api/call.h"
#include "server/process/local_children.h"
#include "server/scheduler/scheduler.h"

namespace gq::server {

struct ServiceOptions {
  std::filesystem::path data;
  std::filesystem::path socket;  // empty: `<data>/gq.sock`
  std::string listen;            // `HOST:PORT`, port 0 for any free one; empty for none
  bool insecure_listen = false;  // also where others could listen in
  bool reflection = false;       // on `listen` as well
  int threads = 16;              // that wait for the ledger
  int blob_threads = 4;
  int64_t log_cap = int64_t{256} << 20;
  LeaseTimes times;
  ApiLimits limits;
};

class Service {
 public:
  // Opens the data folder, recovers what a crash left and begins to serve. `local_agents` are the
  // names of the children that will be started. `clock` outlives it. Fails with kDataFolderLocked,
  // kLedgerTooNew, kLedgerFailed, kInvalidFlag (addresses), kFileUnwritable.
  static absl::StatusOr<std::unique_ptr<Service>> Start(
      const ServiceOptions& options, const std::vector<std::string>& local_agents,
      const base::Clock& clock);
  ~Service();

  // `unix:PATH` of the local socket; `HOST:PORT` with the port that was chosen, empty for none.
  std::string local_address() const;
  std::string listen_address() const;
  const std::filesystem::path& data() const;

  // Starts the children; must be those that Start was told of.
  void StartChildren(std::vector<ChildCommand> commands);

  // Takes nothing new; waits until the children have finished what they do, at most `timeout`.
  void Drain(absl::Duration timeout);
  // Ends children and calls. What agents on other hosts do goes on. Called by the destructor too.
  void Stop();

  // Whether the ledger can still be written; the sign of life of the service.
  absl::Status CheckHealth();

 private:
  struct Parts;
  explicit Service(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace gq::server
