#include "common/calibrate/observed_graph.h"

#include <set>

#include "common/base/text.h"
#include "common/calibrate/observe_operator.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"

namespace gq::calibrate {
namespace {

// Why a tensor cannot be observed; empty when it can.
std::string ReasonAgainst(const graph::GraphIndex& index, const std::string& tensor) {
  if (index.IsInitializer(tensor)) return "a constant";
  if (index.Producer(tensor) == nullptr && !index.IsGraphInput(tensor)) {
    return "not a tensor of the main graph";
  }
  const int32_t type = index.ElemType(tensor);
  if (type == onnx::TensorProto::UNDEFINED) return "of unknown type";
  if (type != onnx::TensorProto::FLOAT) return std::string(graph::DTypeName(type));
  return "";
}

std::map<std::string_view, size_t> Positions(
    const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values,
    const graph::GraphIndex& index) {
  std::map<std::string_view, size_t> positions;
  size_t position = 0;
  for (const onnx::ValueInfoProto& value : values) {
    if (index.IsInitializer(value.name()) && !index.IsGraphOutput(value.name())) continue;
    positions.emplace(value.name(), position++);
  }
  return positions;
}

onnx::NodeProto ObserveNode(const std::string& tensor, const std::string& observed,
                            int64_t number) {
  onnx::NodeProto node =
      graph::MakeNode(kObserveOperator, observed, {tensor}, {observed}, runtime::kOperatorDomain);
  graph::SetAttribute(runtime::kNodeIdAttribute, number, &node);
  return node;
}

}  // namespace

ObservedGraph InsertObservers(const graph::Model& model, std::span<const TensorRequest> tensors,
                              ObserverSet& observers) {
  ObservedGraph result{.model = model};
  const onnx::GraphProto& original = model.graph();
  const graph::GraphIndex index(original);
  const auto inputs = Positions(original.input(), index);
  const auto outputs = Positions(original.output(), index);
  graph::NameScope names(original);

  std::map<std::string_view, std::string> observed;    // tensor -> what its readers read instead
  std::map<int, std::vector<onnx::NodeProto>> behind;  // position of producer -> its observers
  std::set<std::string_view> seen;
  onnx::GraphProto* graph = result.model.mutable_graph();
  for (const TensorRequest& request : tensors) {
    if (!seen.insert(request.name).second) continue;
    if (std::string reason = ReasonAgainst(index, request.name); !reason.empty()) {
      result.left_out.emplace(request.name, std::move(reason));
      continue;
    }
    const int64_t number = observers.Add(request.name, request.grid);
    if (const auto input = inputs.find(request.name); input != inputs.end()) {
      result.inputs[input->second] = number;
      continue;
    }
    if (const auto output = outputs.find(request.name); output != outputs.end()) {
      result.outputs[output->second] = number;
      continue;
    }
    std::string name = names.Unique(base::StrCat(request.name, "_observed"));
    behind[index.ProducerPosition(request.name)].push_back(ObserveNode(request.name, name, number));
    if (const auto shape = index.StaticShape(request.name)) {
      graph::SetValueInfo(name, onnx::TensorProto::FLOAT, *shape, graph);
    }
    observed.emplace(request.name, std::move(name));
  }

  graph->clear_node();
  for (int position = 0; position < original.node_size(); ++position) {
    onnx::NodeProto* node = graph->add_node();
    *node = original.node(position);
    for (std::string& input : *node->mutable_input()) {
      if (const auto found = observed.find(input); found != observed.end()) input = found->second;
    }
    for (onnx::NodeProto& observer : behind[position]) *graph->add_node() = std::move(observer);
  }
  result.model.SetOpset(runtime::kOperatorDomain, 1);
  return result;
}

}  // namespace gq::calibrate
