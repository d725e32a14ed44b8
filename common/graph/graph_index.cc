#include "common/graph/graph_index.h"

#include <algorithm>
#include <unordered_set>

namespace gq::graph {
namespace {

// Adds the names that `graph` takes from outside to `captured`, in order of appearance.
void CollectCaptured(const onnx::GraphProto& graph, std::vector<std::string>* captured,
                     std::unordered_set<std::string>* seen) {
  std::unordered_set<std::string> local;
  for (const auto& input : graph.input()) local.insert(input.name());
  for (const auto& initializer : graph.initializer()) local.insert(initializer.name());
  for (const auto& node : graph.node()) local.insert(node.output().begin(), node.output().end());
  const auto use = [&](const std::string& name) {
    if (!name.empty() && !local.contains(name) && seen->insert(name).second) {
      captured->push_back(name);
    }
  };
  for (const auto& node : graph.node()) {
    for (const auto& input : node.input()) use(input);
    for (const auto& name : CapturedNames(node)) use(name);
  }
  for (const auto& output : graph.output()) use(output.name());
}

std::optional<std::vector<int64_t>> ShapeOf(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
  std::vector<int64_t> shape;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
  }
  return shape;
}

}  // namespace

std::vector<std::string> CapturedNames(const onnx::NodeProto& node) {
  std::vector<std::string> captured;
  std::unordered_set<std::string> seen;
  ForEachSubgraph(node, [&](const auto& graph) { CollectCaptured(graph, &captured, &seen); });
  return captured;
}

GraphIndex::GraphIndex(const onnx::GraphProto& graph) : graph_(&graph) {
  for (const auto& info : graph.value_info()) types_[info.name()] = &info.type();
  for (const auto& input : graph.input()) {
    inputs_.insert(input.name());
    types_[input.name()] = &input.type();
  }
  for (const auto& output : graph.output()) {
    outputs_.insert(output.name());
    // An output may say less about itself than value_info or the input that it passes through.
    if (output.type().has_tensor_type() || !types_.contains(output.name())) {
      types_.try_emplace(output.name(), &output.type());
    }
  }
  for (const auto& initializer : graph.initializer()) {
    initializers_[initializer.name()] = &initializer;
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    positions_[&node] = i;
    if (!node.name().empty()) nodes_.try_emplace(node.name(), i);
    for (const auto& output : node.output()) {
      if (!output.empty()) producers_.try_emplace(output, i);
    }
    for (int j = 0; j < node.input_size(); ++j) {
      if (!node.input(j).empty()) uses_[node.input(j)].push_back({i, j});
    }
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    for (auto& name : CapturedNames(graph.node(i))) {
      captured_names_.push_back(std::make_unique<std::string>(std::move(name)));
      uses_[*captured_names_.back()].push_back({i, TensorUse::kCaptured});
    }
  }
  for (const auto& name : captured_names_) {
    auto& uses = uses_[*name];
    const auto earlier = [](const TensorUse& a, const TensorUse& b) { return a.node < b.node; };
    if (!std::is_sorted(uses.begin(), uses.end(), earlier)) {
      std::stable_sort(uses.begin(), uses.end(), earlier);
    }
  }
}

const onnx::NodeProto* GraphIndex::Producer(std::string_view tensor) const {
  const int position = ProducerPosition(tensor);
  return position < 0 ? nullptr : &graph_->node(position);
}

int GraphIndex::ProducerPosition(std::string_view tensor) const {
  const auto it = producers_.find(tensor);
  return it == producers_.end() ? -1 : it->second;
}

std::span<const TensorUse> GraphIndex::Uses(std::string_view tensor) const {
  const auto it = uses_.find(tensor);
  return it == uses_.end() ? std::span<const TensorUse>() : it->second;
}

const onnx::NodeProto* GraphIndex::OnlyConsumer(std::string_view tensor) const {
  const auto uses = Uses(tensor);
  if (uses.size() != 1 || uses[0].input == TensorUse::kCaptured || IsGraphOutput(tensor)) {
    return nullptr;
  }
  return &graph_->node(uses[0].node);
}

const onnx::NodeProto* GraphIndex::FindNode(std::string_view name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &graph_->node(it->second);
}

int GraphIndex::PositionOf(const onnx::NodeProto& node) const {
  const auto it = positions_.find(&node);
  return it == positions_.end() ? -1 : it->second;
}

const onnx::TensorProto* GraphIndex::Initializer(std::string_view tensor) const {
  const auto it = initializers_.find(tensor);
  return it == initializers_.end() ? nullptr : it->second;
}

bool GraphIndex::Exists(std::string_view tensor) const {
  return inputs_.contains(tensor) || initializers_.contains(tensor) || producers_.contains(tensor);
}

const onnx::TypeProto* GraphIndex::Type(std::string_view tensor) const {
  const auto it = types_.find(tensor);
  return it == types_.end() ? nullptr : it->second;
}

int32_t GraphIndex::ElemType(std::string_view tensor) const {
  if (const auto* initializer = Initializer(tensor)) return initializer->data_type();
  const auto* type = Type(tensor);
  return type != nullptr && type->has_tensor_type() ? type->tensor_type().elem_type()
                                                    : onnx::TensorProto::UNDEFINED;
}

std::optional<std::vector<int64_t>> GraphIndex::Shape(std::string_view tensor) const {
  if (const auto* initializer = Initializer(tensor)) {
    return std::vector<int64_t>(initializer->dims().begin(), initializer->dims().end());
  }
  const auto* type = Type(tensor);
  return type == nullptr ? std::nullopt : ShapeOf(*type);
}

std::optional<std::vector<int64_t>> GraphIndex::StaticShape(std::string_view tensor) const {
  auto shape = Shape(tensor);
  if (!shape.has_value()) return std::nullopt;
  for (const int64_t dim : *shape) {
    if (dim < 0) return std::nullopt;
  }
  return shape;
}

bool IsOp(const onnx::NodeProto& node, std::string_view op_type) {
  return node.op_type() == op_type && (node.domain().empty() || node.domain() == "ai.onnx");
}

bool IsKnownDomain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "com.microsoft";
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t AttributeInt(const onnx::NodeProto& node, std::string_view name, int64_t value) {
  const auto* attribute = FindAttribute(node, name);
  return attribute != nullptr && attribute->has_i() ? attribute->i() : value;
}

float AttributeFloat(const onnx::NodeProto& node, std::string_view name, float value) {
  const auto* attribute = FindAttribute(node, name);
  return attribute != nullptr && attribute->has_f() ? attribute->f() : value;
}

std::string AttributeString(const onnx::NodeProto& node, std::string_view name,
                            std::string_view value) {
  const auto* attribute = FindAttribute(node, name);
  return attribute != nullptr && attribute->has_s() ? attribute->s() : std::string(value);
}

std::vector<int64_t> AttributeInts(const onnx::NodeProto& node, std::string_view name,
                                   std::vector<int64_t> value) {
  const auto* attribute = FindAttribute(node, name);
  if (attribute == nullptr || attribute->type() != onnx::AttributeProto::INTS) return value;
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::string_view InputName(const onnx::NodeProto& node, int position) {
  return position < node.input_size() ? std::string_view(node.input(position)) : "";
}

std::string_view OutputName(const onnx::NodeProto& node, int position) {
  return position < node.output_size() ? std::string_view(node.output(position)) : "";
}

}  // namespace gq::graph
