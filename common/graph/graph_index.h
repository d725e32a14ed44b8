// Look-ups over one graph: who makes a tensor, who reads it, what is known about it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx/onnx_pb.h"

namespace gq::graph {

// One use of a tensor. `input` is kCaptured when a subgraph of the node reads the tensor by name.
struct TensorUse {
  static constexpr int kCaptured = -1;
  int node = 0;   // position in graph.node
  int input = 0;  // position in node.input
};

// A snapshot: build it again after nodes, initializers or names changed. The graph must outlive it.
class GraphIndex {
 public:
  explicit GraphIndex(const onnx::GraphProto& graph);

  const onnx::GraphProto& graph() const { return *graph_; }

  // The node whose output is `tensor`; null (-1) for graph inputs, initializers and unknown names.
  const onnx::NodeProto* Producer(std::string_view tensor) const;
  int ProducerPosition(std::string_view tensor) const;

  // Every reader in graph order, uses in subgraphs included (once for each node that holds such a
  // subgraph). A node that reads the tensor twice appears twice. Graph outputs do not count.
  std::span<const TensorUse> Uses(std::string_view tensor) const;

  // The only reading node of a tensor that is neither a graph output nor captured by a subgraph;
  // null otherwise.
  const onnx::NodeProto* OnlyConsumer(std::string_view tensor) const;

  const onnx::NodeProto& node(int position) const { return graph_->node(position); }
  const onnx::NodeProto* FindNode(std::string_view name) const;
  int PositionOf(const onnx::NodeProto& node) const;  // of a node of this graph

  const onnx::TensorProto* Initializer(std::string_view tensor) const;
  bool IsInitializer(std::string_view tensor) const { return Initializer(tensor) != nullptr; }
  bool IsGraphInput(std::string_view tensor) const { return inputs_.contains(tensor); }
  bool IsGraphOutput(std::string_view tensor) const { return outputs_.contains(tensor); }
  // True when any graph input, initializer or node output has this name.
  bool Exists(std::string_view tensor) const;

  // From inputs, outputs, value_info and initializers. UNDEFINED (0) when not known.
  int32_t ElemType(std::string_view tensor) const;
  // Dimensions with -1 for each that is not known; nullopt when not even the rank is known.
  std::optional<std::vector<int64_t>> Shape(std::string_view tensor) const;
  // As Shape, but only when every dimension is known.
  std::optional<std::vector<int64_t>> StaticShape(std::string_view tensor) const;
  const onnx::TypeProto* Type(std::string_view tensor) const;

 private:
  const onnx::GraphProto* graph_;
  // Names out of subgraphs; the keys below may point into them.
  std::vector<std::unique_ptr<std::string>> captured_names_;
  std::unordered_map<std::string_view, int> producers_;
  std::unordered_map<std::string_view, std::vector<TensorUse>> uses_;
  std::unordered_map<std::string_view, const onnx::TensorProto*> initializers_;
  std::unordered_map<std::string_view, const onnx::TypeProto*> types_;
  std::unordered_map<std::string_view, int> nodes_;
  std::unordered_map<const onnx::NodeProto*, int> positions_;
  std::unordered_set<std::string_view> inputs_;
  std::unordered_set<std::string_view> outputs_;
};

// True for the default domain ("" or "ai.onnx") and this type.
bool IsOp(const onnx::NodeProto& node, std::string_view op_type);

// True for the default domain and com.microsoft, whose operators mean what their names say. Names
// of other domains say nothing about an operator.
bool IsKnownDomain(std::string_view domain);

// Attributes of a node; the default when absent or of another kind.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);
int64_t AttributeInt(const onnx::NodeProto& node, std::string_view name, int64_t value);
float AttributeFloat(const onnx::NodeProto& node, std::string_view name, float value);
std::string AttributeString(const onnx::NodeProto& node, std::string_view name,
                            std::string_view value);
std::vector<int64_t> AttributeInts(const onnx::NodeProto& node, std::string_view name,
                                   std::vector<int64_t> value = {});

// Input or output by position; empty when absent or left out.
std::string_view InputName(const onnx::NodeProto& node, int position);
std::string_view OutputName(const onnx::NodeProto& node, int position);

// Calls `visit` with every subgraph held directly by an attribute of `node`.
template <typename Visitor>
void ForEachSubgraph(const onnx::NodeProto& node, Visitor visit) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const auto& graph : attribute.graphs()) visit(graph);
  }
}
template <typename Visitor>
void ForEachMutableSubgraph(onnx::NodeProto* node, Visitor visit) {
  for (auto& attribute : *node->mutable_attribute()) {
    if (attribute.has_g()) visit(attribute.mutable_g());
    for (auto& graph : *attribute.mutable_graphs()) visit(&graph);
  }
}

// Names that the node's subgraphs take from outside, each once, in order of appearance.
std::vector<std::string> CapturedNames(const onnx::NodeProto& node);

}  // namespace gq::graph
