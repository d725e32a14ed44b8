// `gq-agent harness REQUEST`: ONNX Runtime behind the harness contract (docs/harness.md), in a
// process of its own, so that a vendor's library gets its own environment and may crash.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "board_agent/backends/backend.h"

namespace gq::agent {

// Does what the request says. Beside the contract's fields it takes `runtime`: `library` (path of
// ONNX Runtime), `provider` and `provider_options`, `threads`.
//
// `probe`: `version`, `providers`, `path`. `compile`: creates a session of `model`; `session` tells
// whether one came about, `message` what was thrown otherwise when that was the absence of a
// device, which does not make a compile fail. `run`: `outputs`, `more_outputs`, `samples_ms`,
// `setup_seconds`.
// Errors: kRuntimeMissing, kCompileFailed, kBoardFailed, those of reading data.
absl::StatusOr<nlohmann::ordered_json> DoHarnessRequest(const nlohmann::ordered_json& request);

// The program: reads the request, answers it; 0 when a response was written.
int RunHarness(const std::filesystem::path& request);

// The other half of `run`: writes the samples as .npy files into `folder` and sets `inputs` and
// `more_inputs` of the request; reads `outputs` and `more_outputs` of a response.
absl::Status WriteRunInputs(const RunRequest& run, const std::filesystem::path& folder,
                            nlohmann::ordered_json& request);
absl::Status ReadRunOutputs(const nlohmann::ordered_json& response, BoardRun& run);

}  // namespace gq::agent
