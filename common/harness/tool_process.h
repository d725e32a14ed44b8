// A program of somebody else, run to its end: its own process group, captured output, an end
// whatever happens.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/reporter.h"

namespace gq::harness {

struct ToolCommand {
  std::vector<std::string>
      arguments;  // the program first; without a slash it is looked for in PATH
  // Beyond the environment of this process.
  std::map<std::string, std::string> environment;
  std::filesystem::path work_dir = ".";
  // A shell script that sets up the environment; sourced by bash before the program starts.
  std::filesystem::path activation_script;
  absl::Duration time_limit = absl::InfiniteDuration();
  // Raises the stack limit as far as it may go (compilers with deep recursion).
  bool large_stack = false;
  // Standard input is a pipe that stays open until the tool ends; without it, /dev/null. A tool on
  // another host notices by its end that this side is gone.
  bool hold_input = false;
  // Gets everything that the tool printed; empty for none.
  std::filesystem::path log_file;
};

struct ToolExit {
  int status = 0;  // as waitpid(2) gives it
  // The last lines that it printed, for messages.
  std::string last_lines;

  bool ok() const { return status == 0; }
  // `ended with status 3`, `was ended by signal SIGSEGV`.
  std::string Describe() const;
};

// Runs the tool. `on_line` gets each line of its output (standard output and error together,
// without the newline, cut at 16 KiB). The whole process group is killed when the tool ends, when
// this process ends in whatever way, and before an error is returned: kToolMissing when it cannot
// be started, kTimeout, kCancelled when the reporter says so, kFileUnwritable for the log.
absl::StatusOr<ToolExit> RunTool(const ToolCommand& command,
                                 const std::function<void(std::string_view)>& on_line,
                                 const base::Reporter& reporter);

}  // namespace gq::harness
