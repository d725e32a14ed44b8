// Changes to a graph that keep it well formed. All work on the onnx message; a GraphIndex made
// before is stale after.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// Hands out names that nothing in the graph or its subgraphs has: tensors (of inputs, outputs,
// initializers, nodes) and nodes share one scope, so a name is good for both.
class NameScope {
 public:
  explicit NameScope(const onnx::GraphProto& graph);
  // `wanted` when it is free, else the first free of wanted_1, wanted_2, ...; taken from then on.
  std::string Unique(std::string_view wanted);
  // For a node of a name that tensors may share (Quark names nodes after tensors): unique among
  // nodes only.
  std::string UniqueNode(std::string_view wanted);
  // For nodes that go, and for nodes that were given a name of their own.
  void ReleaseNode(std::string_view name);
  void TakeNode(std::string_view name) { nodes_.emplace(name); }
  bool IsTensor(std::string_view name) const { return tensors_.contains(name); }
  bool IsNode(std::string_view name) const { return nodes_.contains(name); }

 private:
  // Numbers below these are taken, so that many names of one stem do not search from the start.
  using NextNumbers = std::map<std::string, int, std::less<>>;

  std::set<std::string, std::less<>> tensors_;
  std::set<std::string, std::less<>> nodes_;
  NextNumbers next_;
  NextNumbers next_node_;
};

// Builds a node. An empty input name leaves that input out.
onnx::NodeProto MakeNode(std::string_view op_type, std::string_view name,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, std::string_view domain = "");
void SetAttribute(std::string_view name, int64_t value, onnx::NodeProto* node);
void SetAttribute(std::string_view name, float value, onnx::NodeProto* node);
void SetAttribute(std::string_view name, std::string_view value, onnx::NodeProto* node);
void SetAttribute(std::string_view name, const std::vector<int64_t>& value, onnx::NodeProto* node);
void RemoveAttribute(std::string_view name, onnx::NodeProto* node);

// Inserts `node` so that it stands at `position` of graph.node.
void InsertNode(int position, onnx::NodeProto node, onnx::GraphProto* graph);

// Removes the nodes at these positions (any order, duplicates allowed).
void RemoveNodes(std::vector<int> positions, onnx::GraphProto* graph);

// Lets every reader of `from`, in subgraphs too, read `to`. Graph outputs and the producer stay as
// they are.
void ReplaceUses(std::string_view from, std::string_view to, onnx::GraphProto* graph);

// The same for many tensors in one go; a name that is replaced by a replaced one gets the last of
// them.
void ReplaceUses(std::unordered_map<std::string, std::string> names, onnx::GraphProto* graph);

// Gives the tensor `from` the free name `to` everywhere: producer, readers, initializer, inputs,
// outputs, value_info.
void RenameTensor(std::string_view from, std::string_view to, onnx::GraphProto* graph);

// Takes a node with one data input and one output out of the graph: its readers read `input`
// instead. When its output is a graph output, the producer of `input` makes that name instead.
// False, and nothing changed, where this cannot be done (the output is a graph output and `input`
// is a graph input, an initializer, or a graph output itself).
bool BypassNode(int position, std::string_view input, onnx::GraphProto* graph);

// Removes nodes none of whose outputs is needed, subgraphs included. Returns how many.
int RemoveDeadNodes(onnx::GraphProto* graph);

// Removes initializers that nothing reads, and value_info of tensors that are gone. Returns how
// many initializers.
int RemoveUnusedInitializers(onnx::GraphProto* graph);

// Stable topological order: a node moves only behind what it needs. MODEL_INVALID with the names of
// nodes on a cycle, or of a tensor that nobody makes.
absl::Status SortTopologically(onnx::GraphProto* graph);

// Every node gets a name and no two the same; given names are kept. Returns how many changed.
int MakeNodeNamesUnique(onnx::GraphProto* graph);

// Sets type and static shape of a tensor in value_info (added when missing; ignored for inputs and
// outputs). Looks through all of value_info.
void SetValueInfo(std::string_view tensor, int32_t elem_type, const std::vector<int64_t>& dims,
                  onnx::GraphProto* graph);

// The same for a tensor that is known to be no input, no output and not in value_info.
void AddValueInfo(std::string_view tensor, int32_t elem_type, const std::vector<int64_t>& dims,
                  onnx::GraphProto* graph);

}  // namespace gq::graph
