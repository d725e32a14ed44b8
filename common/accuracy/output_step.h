// The quantization step of a model's output.
#pragma once

#include <string_view>

#include "common/graph/graph_index.h"
#include "common/graph/model.h"

namespace gq::accuracy {

// The scale of the DequantizeLinear that `output` comes out of, directly or through operators that
// move values without changing them (Reshape, Transpose, Concat, MaxPool ...); the largest of
// several. 0 when the output does not come out of a quantizer. `index` must be of the main graph of
// `model`.
double OutputStep(const graph::Model& model, const graph::GraphIndex& index,
                  std::string_view output);

}  // namespace gq::accuracy
