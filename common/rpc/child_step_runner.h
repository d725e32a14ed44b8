// Runs a lease as a child process: `PROGRAM step WORKDIR` (step_program.h is the other side).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/rpc/step_runner.h"

namespace gq::rpc {

struct ChildLimits {
  // 0 means no limit. The sums hold for every process of the child's group only as far as the
  // kernel counts so: they are setrlimit(2) limits.
  int64_t address_space_bytes = 0;
  int64_t cpu_seconds = 0;
  int64_t file_bytes = 0;
  int64_t open_files = 1024;
  // Take the network away with a network namespace, where the kernel allows it.
  bool no_network = true;
};

struct ChildStepRunnerOptions {
  // Program and leading arguments; `step WORKDIR` follows.
  std::vector<std::string> command;
  ChildLimits limits;
  // Environment of the child beyond PATH, HOME (= WORKDIR), TMPDIR, LANG and GQ_EVENT_FD; nothing
  // else is inherited.
  std::map<std::string, std::string> environment;
  // Variables that are passed on when this process has them.
  std::vector<std::string> inherit = {"GQ_ONNXRUNTIME", "GQ_PLUGINS",    "LD_LIBRARY_PATH", "TZ",
                                      "ASAN_OPTIONS",   "UBSAN_OPTIONS", "TSAN_OPTIONS"};
  // From SIGTERM to SIGKILL.
  absl::Duration kill_delay = absl::Seconds(10);
};

// The child gets its own process group and session-less terminal, no new privileges, no core file,
// and dies with the thread that runs it. Its standard output are stored log lines; other output,
// and standard error, become lines of the component `Output`, cut at 16 KiB. When it ends, its
// whole process group is killed. A child that ends without result.pb is an error kWorkerLost that
// says how it ended (signal, limit, exit status).
class ChildStepRunner : public StepRunner {
 public:
  explicit ChildStepRunner(ChildStepRunnerOptions options) : options_(std::move(options)) {}

  absl::StatusOr<gq::v1::StepResult> Run(const gq::v1::Lease& lease,
                                         const std::filesystem::path& work_dir, StepEvents& events,
                                         std::stop_token stop) override;

 private:
  const ChildStepRunnerOptions options_;
};

}  // namespace gq::rpc
