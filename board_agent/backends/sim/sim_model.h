// Models as the simulator needs them.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::agent {

// Loads a model and infers its shapes. Errors as graph::LoadModel.
absl::StatusOr<graph::Model> LoadForSim(const std::filesystem::path& path);

// A convolution with a Relu, for health checks: 1x3x8x8 -> 1x4x8x8.
absl::StatusOr<graph::Model> MakeProbeModel();

}  // namespace gq::agent
