// Quantization at the edges of a model, which the runtime can take over (VE2 workflow, f.4).
#pragma once

#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace gq::compile {

// Node names. Only a QuantizeLinear that alone consumes a graph input, and a DequantizeLinear that
// produces a graph output, count: a Q/DQ pair that belongs together inside the graph does not.
struct BoundaryQuantization {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  bool empty() const { return inputs.empty() && outputs.empty(); }
};

BoundaryQuantization FindBoundaryQuantization(const onnx::GraphProto& graph);

}  // namespace gq::compile
