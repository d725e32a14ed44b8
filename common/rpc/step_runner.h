// How a session has the work of a lease done.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::rpc {

// What the work tells while it goes on. Thread-safe; owned by the session and alive until Run
// returns.
class StepEvents {
 public:
  virtual ~StepEvents() = default;
  // Whole stored log lines, each with its newline.
  virtual void Log(std::string_view stored_lines) = 0;
  virtual void Progress(const gq::v1::StepProgress& progress) = 0;
  // Returns when the server has recorded the iteration. Fails with kLeaseLost when the lease is
  // gone and kCancelled when the work is to stop.
  virtual absl::Status Iteration(const gq::v1::Iteration& iteration) = 0;
};

// Thread-safe: a session runs several leases at once.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Does the work of `lease` in `work_dir` (step_layout.h; inputs are there) and returns the
  // outcome, its artifacts with their path below out/ only. Blocks. After a stop request it ends
  // within seconds, leaves no process behind and its return value does not count. An error means
  // that the work was lost (infrastructure): kWorkerLost and the like.
  virtual absl::StatusOr<gq::v1::StepResult> Run(const gq::v1::Lease& lease,
                                                 const std::filesystem::path& work_dir,
                                                 StepEvents& events, std::stop_token stop) = 0;
};

}  // namespace gq::rpc
