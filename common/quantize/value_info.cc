#include "common/quantize/value_info.h"

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/opset.h"
#include "common/graph/shape_inference.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::quantize {
namespace {

struct TensorType {
  int32_t type = 0;
  std::vector<int64_t> shape;
};

class TypeTable {
 public:
  explicit TypeTable(QuantizeContext& context) : context_(context) {
    const auto& graph = context.model.graph();
    for (const auto& tensor : graph.initializer()) {
      known_[tensor.name()] = {tensor.data_type(), {tensor.dims().begin(), tensor.dims().end()}};
    }
    const graph::GraphIndex index(graph);
    for (const auto& input : graph.input()) TakeFrom(index, input.name(), input.name());
    for (const auto& node : graph.node()) {
      for (const auto& output : node.output()) {
        if (!output.empty()) TakeFrom(context.index, context.OriginalName(output), output);
      }
    }
  }

  // Of an inserted node from its first input, where that is all it needs.
  void Propagate(const onnx::NodeProto& node) {
    if (node.input_size() == 0 || node.output_size() == 0) return;
    const TensorType* input = Find(node.input(0));
    if (input == nullptr) return;
    if (IsQuantizeNode(node)) {
      const TensorType* zero_point = Find(graph::InputName(node, 2));
      Set(node.output(0), zero_point == nullptr ? onnx::TensorProto::UINT8 : zero_point->type,
          input->shape);
    } else if (IsDequantizeNode(node)) {
      Set(node.output(0), onnx::TensorProto::FLOAT, input->shape);
    } else if (graph::IsOp(node, "Cast")) {
      Set(node.output(0), static_cast<int32_t>(graph::AttributeInt(node, "to", 0)), input->shape);
    } else if (Find(node.output(0)) == nullptr &&
               (graph::IsOp(node, "Mul") || graph::IsOp(node, "Clip"))) {
      Set(node.output(0), input->type, input->shape);
    }
  }

  const TensorType* Find(std::string_view tensor) const {
    const auto it = known_.find(base::ToAbsl(tensor));
    return it == known_.end() ? nullptr : &it->second;
  }

 private:
  void TakeFrom(const graph::GraphIndex& index, const std::string& source,
                const std::string& tensor) {
    const auto shape = index.StaticShape(source);
    if (shape && !index.IsInitializer(source)) known_[tensor] = {index.ElemType(source), *shape};
  }
  void Set(const std::string& tensor, int32_t type, const std::vector<int64_t>& shape) {
    known_[tensor] = {type, std::vector<int64_t>(shape)};
  }

  QuantizeContext& context_;
  absl::flat_hash_map<std::string, TensorType> known_;
};

}  // namespace

absl::Status CompleteValueInfo(QuantizeContext& context) {
  onnx::GraphProto* graph = context.model.mutable_graph();
  TypeTable types(context);
  bool all_known = true;
  graph->clear_value_info();
  absl::flat_hash_set<std::string> outputs;
  for (const auto& output : graph->output()) outputs.insert(output.name());
  for (const auto& node : graph->node()) {
    types.Propagate(node);
    for (const auto& output : node.output()) {
      if (output.empty()) continue;
      const TensorType* type = types.Find(output);
      if (type == nullptr) {
        all_known = false;
      } else if (!outputs.contains(output)) {
        graph::AddValueInfo(output, type->type, type->shape, graph);
      }
    }
  }
  if (all_known) return absl::OkStatus();
  return graph::InferShapes(graph::InferenceMode::kLenient, &context.model);
}

}  // namespace gq::quantize
