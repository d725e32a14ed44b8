// What `ml_vart` reads and writes (VE2 workflow, section h.3).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/tensor.h"

namespace gq::agent {

// Writes FOLDER/app.json and FOLDER/inputs/N.bin. The paths in app.json are relative to FOLDER, the
// compiled model is `model/KEY.rai` there, outputs go to `results/outputs`.
absl::Status WriteVartFiles(const std::filesystem::path& folder, std::string_view key,
                            const std::vector<std::string>& input_names,
                            const std::vector<runtime::Tensor>& inputs);

// Reads FOLDER/results/outputs/infer_out{i}-{dtype}_{shape}_{name}.bin; `expected` gives number,
// element type and shapes of the outputs. bf16 and fp16 become float32. Fails with kBoardFailed
// when one is missing or has another size or an integer type where a float is expected.
absl::StatusOr<std::vector<runtime::Tensor>> ReadVartOutputs(
    const std::filesystem::path& folder, const std::vector<runtime::TensorInfo>& expected);

// `Average inference time: 5.23 ms/inference (dp_size=1)`; nothing in other lines.
std::optional<double> ParseVartTime(std::string_view line);

}  // namespace gq::agent
