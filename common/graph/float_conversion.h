// Graphs that compute in half or double precision.
#pragma once

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::graph {

// Lets the whole graph compute in float32: constants are converted, Casts and generators to FLOAT16
// and DOUBLE make FLOAT. Inputs and outputs keep their types behind Casts named <tensor>_Cast.
// Returns how many tensors (constants, inputs and outputs) were converted; 0 when there was nothing
// to do. value_info is dropped then: infer shapes anew.
absl::StatusOr<int> ConvertToFloat32(Model* model);

}  // namespace gq::graph
