// The frame of `PROGRAM step WORKDIR`: the child that does the work of one lease.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/reporter.h"
#include "common/rpc/step_channel.h"
#include "common/rpc/step_layout.h"
#include "gq/v1/agent_service.pb.h"

namespace gq::rpc {

// Reporter of a step: stored log lines to a file descriptor, progress (at most every 200 ms, and
// its last value) to the parent. Cancelled() is true after SIGTERM once InstallTerminationHandler()
// was called.
class StepReporter : public base::Reporter {
 public:
  StepReporter(int log_fd, StepChannel& channel) : log_fd_(log_fd), channel_(channel) {}

  static void InstallTerminationHandler();

  void Log(base::LogLevel level, std::string_view component, std::string_view text) override;
  void Report(const base::Progress& progress) override;
  bool Cancelled() const override;

 private:
  const int log_fd_;
  StepChannel& channel_;
  absl::Mutex mutex_;
  absl::Time last_progress_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

struct StepContext {
  const gq::v1::Lease& lease;
  const StepFiles& files;
  base::Reporter& reporter;
  StepChannel& channel;  // for iterations
};

using StepFunction = std::function<absl::StatusOr<gq::v1::StepResult>(StepContext&)>;

// Reads WORKDIR/lease.pb, runs `step` and writes WORKDIR/result.pb (to a temporary file, then
// renamed). An error of `step` becomes a result FAILED (CANCELLED for kCancelled) with its reason;
// an OK result without a state becomes SUCCEEDED. Artifacts: every regular file below WORKDIR/out,
// whatever `step` lists. Returns the exit status of the program: 0 when result.pb was written.
int RunStepProgram(const std::filesystem::path& work_dir, const StepFunction& step);

}  // namespace gq::rpc
