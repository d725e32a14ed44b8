// A lab's own harness: a program that speaks the contract of docs/harness.md.
#pragma once

#include "board_agent/backends/backend.h"

namespace gq::agent {

// Options of a board: `command` (the program with its arguments, separated by blanks), `script`,
// `scripts`, `compile_seconds`, `run_seconds`, `probe_seconds` (time limits), `env.NAME`, and any
// `x.NAME` that the harness itself reads from its requests.
class CommandBackend : public Backend {
 public:
  std::string_view name() const override { return "command"; }
  bool needs_network() const override { return true; }
  absl::StatusOr<Probe> ProbeBoard(const BoardSpec& board) const override;
  absl::StatusOr<CompileRun> Compile(const CompileRequest& request,
                                     base::Reporter& reporter) const override;
  absl::StatusOr<BoardRun> Run(const RunRequest& request, base::Reporter& reporter) const override;
  absl::StatusOr<std::string> CheckHealth(const BoardSpec& board,
                                          base::Reporter& reporter) const override;
};

}  // namespace gq::agent
