// The simulated backend: needs no vendor software and no hardware. Every figure it gives is marked
// as simulated.
#pragma once

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
  // must be.
  absl::StatusOr<std::string> CheckHealth(const BoardSpec& board,
                                          base::Reporter& reporter) const override;
};

}  // namespace gq::agent
