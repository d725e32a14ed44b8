// The small model with which backends check their boards.
#pragma once

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::agent {

// A 1x1 convolution with a Relu, input `x` 1x3x8x8, output `y` 1x4x8x8. Weight k of the twelve is
// 0.25 * (k - 6), so an input of ones gives 0, 0, 0.75 and 3 in the four channels.
absl::StatusOr<graph::Model> MakeProbeModel();

}  // namespace gq::agent
