#include "common/compile/edge_quantization.h"

#include "common/graph/graph_index.h"

namespace gq::compile {

BoundaryQuantization FindBoundaryQuantization(const onnx::GraphProto& graph) {
  const graph::GraphIndex index(graph);
  BoundaryQuantization found;
  for (const onnx::NodeProto& node : graph.node()) {
    const std::string_view input = graph::InputName(node, 0);
    const std::string_view output = graph::OutputName(node, 0);
    if (node.op_type() == "QuantizeLinear" && index.IsGraphInput(input) &&
        !index.IsInitializer(input) && index.Uses(input).size() == 1) {
      // A pair only imitates the rounding; the input itself stays float.
      const onnx::NodeProto* next = index.OnlyConsumer(output);
      const bool ends_at_once = next != nullptr && next->op_type() == "DequantizeLinear" &&
                                index.IsGraphOutput(graph::OutputName(*next, 0));
      if (!ends_at_once) found.inputs.push_back(node.name());
    }
    if (node.op_type() == "DequantizeLinear" && index.IsGraphOutput(output) &&
        index.Producer(input) != nullptr) {
      found.outputs.push_back(node.name());
    }
  }
  return found;
}

}  // namespace gq::compile
