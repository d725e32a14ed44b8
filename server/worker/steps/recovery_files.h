// What accuracy recovery made of the float model, handed from Graph Quantize to Explore, so that
// the search does not repeat the passes.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/recovery_source.h"
#include "common/rpc/step_layout.h"

namespace gq::worker {

// Names of the results; the model is there only where recovery edited it.
inline constexpr char kRecoveredModelFile[] = "model_recovered.onnx";
inline constexpr char kRecoveredConfigFile[] = "config_recovered.json";

// Writes what `source` is beside `float_model`. FILE_UNWRITABLE, DISK_FULL.
absl::Status WriteRecoverySource(const quantize::RecoverySource& source,
                                 const graph::Model& float_model, const rpc::StepFiles& files);

// Nothing where no earlier step wrote one. Errors of LoadModel and ParseQuarkJson.
absl::StatusOr<std::optional<quantize::RecoverySource>> ReadRecoverySource(
    const graph::Model& float_model, const rpc::StepFiles& files);

}  // namespace gq::worker
