// ONNX Runtime on the agent's own CPU: serves the `*-cpu` devices. Nothing about it is simulated.
#pragma once

#include "board_agent/backends/backend.h"

namespace gq::agent {

class OnnxRuntimeBackend : public Backend {
 public:
  std::string_view name() const override { return "onnxruntime"; }
  absl::StatusOr<Probe> ProbeBoard(const BoardSpec& board) const override;
  // Builds a session with all optimizations and leaves CACHE/KEY/KEY_optimized.onnx.
  absl::StatusOr<CompileRun> Compile(const CompileRequest& request,
                                     base::Reporter& reporter) const override;
  // Measures the model on this CPU with all optimizations and its integer kernels.
  absl::StatusOr<BoardRun> Run(const RunRequest& request, base::Reporter& reporter) const override;
  // Runs a small built-in model and compares its result with the one worked out by hand.
  absl::StatusOr<std::string> CheckHealth(const BoardSpec& board,
                                          base::Reporter& reporter) const override;
};

}  // namespace gq::agent
