// Weights that no quantization can hold.
#pragma once

#include "absl/status/status.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"

namespace gq::quantize {

// MODEL_INVALID, naming node, weight and element, when a constant of a compute layer holds NaN or
// infinity.
absl::Status CheckWeights(const graph::Model& model, const graph::GraphIndex& index);

}  // namespace gq::quantize
