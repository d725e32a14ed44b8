// The vendor's software: the VitisAI execution provider of its ONNX Runtime compiles, and runs on a
// board of this host; `ml_vart` runs here or on a board at the other end of ssh (VE2 workflow,
// sections g and h).
#pragma once

#include "board_agent/backends/backend.h"

namespace gq::agent {

// Options of a board (docs/boards.md): `onnxruntime`, `script`, `scripts`, `run` (`onnxruntime` or
// `vart`), `vart`, `npu` (`auto`, `yes`, `no`), `compile_seconds`, `run_seconds`, `env.NAME`, and
// those of ReadSshTarget.
class VitisaiBackend : public Backend {
 public:
  std::string_view name() const override { return "vitisai"; }
  bool needs_network() const override { return true; }
  // ml_vart takes one sample a call.
  bool TakesManySamples(const BoardSpec& board) const override;
  // What is missing (library, provider, NPU, ml_vart, the way to the board) is in `absent`.
  absl::StatusOr<Probe> ProbeBoard(const BoardSpec& board) const override;
  // Creates a session with the provider in a process of its own; creating it is the compile. What
  // the tool printed is in CACHE/KEY/session.log. Whether it worked is for the files to tell.
  absl::StatusOr<CompileRun> Compile(const CompileRequest& request,
                                     base::Reporter& reporter) const override;
  absl::StatusOr<BoardRun> Run(const RunRequest& request, base::Reporter& reporter) const override;
  // The same as the probe, and an error for whatever is missing to run.
  absl::StatusOr<std::string> CheckHealth(const BoardSpec& board,
                                          base::Reporter& reporter) const override;
};

}  // namespace gq::agent
