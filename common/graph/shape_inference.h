// Types and shapes of all tensors, by the onnx library with data propagation.
#pragma once

#include "absl/status/status.h"
#include "common/graph/model.h"

namespace gq::graph {

enum class InferenceMode {
  kLenient,  // what cannot be inferred stays unknown
  kStrict,   // MODEL_INVALID, with the node, where an operator's inputs do not fit
};

// Infers types and shapes anew: old value_info and output shapes are forgotten, but for tensors
// that nothing can be inferred for (outputs of custom operators), which keep what was known. Graph
// inputs are what it starts from.
absl::Status InferShapes(InferenceMode mode, Model* model);

}  // namespace gq::graph
