// `gq-agent harness REQUEST`: ONNX Runtime behind the harness contract (docs/harness.md), in a
// process of its own, so that a vendor's library gets its own environment and may crash.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/tensor.h"

namespace gq::agent {

// Does what the request says. Beside the contract's fields it takes `runtime`: `library` (path of
// ONNX Runtime), `provider` and `provider_options`, `threads`.
//
// `probe`: `version`, `providers`, `path`. `compile`: creates a session of `model`; `session` tells
// whether one came about, `message` what was thrown otherwise when that was the absence of a
// device, which does not make a compile fail. `run`: `outputs`, `samples_ms`, `setup_seconds`.
// Errors: kRuntimeMissing, kCompileFailed, kBoardFailed, those of reading data.
absl::StatusOr<nlohmann::ordered_json> DoHarnessRequest(const nlohmann::ordered_json& request);

// The program: reads the request, answers it; 0 when a response was written.
int RunHarness(const std::filesystem::path& request);

// Writes the inputs of a run as .npy files into `folder` and returns the request's `inputs`; reads
// the `outputs` of a response. The other half of `run`.
absl::StatusOr<nlohmann::ordered_json> WriteRunInputs(const std::vector<std::string>& names,
                                                      const std::vector<runtime::Tensor>& inputs,
                                                      const std::filesystem::path& folder);
absl::StatusOr<std::vector<runtime::Tensor>> ReadRunOutputs(const nlohmann::ordered_json& response);

}  // namespace gq::agent
