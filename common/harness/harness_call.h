// The contract with programs that a lab brings: a JSON request in a file, a JSON response in a
// file (docs/harness.md). Harnesses of the `command` backend and plugins speak it, and so does
// `gq-agent harness`.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/reason.h"
#include "common/base/reporter.h"
#include "common/harness/tool_process.h"

namespace gq::harness {

inline constexpr int kHarnessSchema = 1;

struct HarnessCall {
  // Program with leading arguments; the path of the request follows. work_dir and time_limit count.
  ToolCommand tool;
  // Gets `schema`, `action`, `work_dir` and `response` added.
  nlohmann::ordered_json request = nlohmann::ordered_json::object();
  std::string action;     // `probe`, `compile`, `run`, `health`, `apply`
  std::string component;  // of the log lines
  // What the program prints is logged with this level. A line `GQ-PROGRESS DONE TOTAL UNIT` is
  // progress instead.
  base::LogLevel level = base::LogLevel::kInfo;
  // Reason for a failure to which the program gives none.
  base::Reason failure = base::Reason::kBoardFailed;
};

// Writes WORK_DIR/ACTION.request.json, runs the program and returns its response, an object with
// `ok` true. Errors: those of RunTool; `failure`, or the reason that the response names, with the
// program's message; `failure` when it ends without a response that can be read.
absl::StatusOr<nlohmann::ordered_json> CallHarness(const HarnessCall& call,
                                                   base::Reporter& reporter);

// The other side: the request in `path`. Fails with kConfigInvalid when it is none.
absl::StatusOr<nlohmann::ordered_json> ReadHarnessRequest(const std::filesystem::path& path);
// Writes the response to where the request wants it: `fields` and `ok` true, or the error.
absl::Status WriteHarnessResponse(const nlohmann::ordered_json& request,
                                  const absl::StatusOr<nlohmann::ordered_json>& fields);

}  // namespace gq::harness
