// The simulated backend: needs no vendor software and no hardware. Every figure it gives is marked
// as simulated.
#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "board_agent/backends/backend.h"

namespace gq::agent {

// Devices: `ve2-sim` and the VE2 devices (compile and run), `ethos-u-*` (checks of the model only).
class SimBackend : public Backend {
 public:
  std::string_view name() const override { return "sim"; }
  absl::StatusOr<Probe> ProbeBoard(const BoardSpec& board) const override;
  absl::StatusOr<CompileRun> Compile(const CompileRequest& request,
                                     base::Reporter& reporter) const override;
  // Outputs from the CPU reference, latency from a roofline model (sim_roofline.h).
  absl::StatusOr<BoardRun> Run(const RunRequest& request, base::Reporter& reporter) const override;
  // Compiles a small model that is built in, reads the result back and compares it with what it
  // must be. A board that is told to hang, crash or compute wrong passes its first check and fails
  // the later ones, like one that broke after its enrolment.
  absl::StatusOr<std::string> CheckHealth(const BoardSpec& board,
                                          base::Reporter& reporter) const override;

 private:
  bool IsFirstCheck(const std::string& board) const;

  mutable absl::Mutex mutex_;
  mutable std::map<std::string, int> checks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::agent
