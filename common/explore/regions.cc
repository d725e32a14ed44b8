#include "common/explore/regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::explore {

std::vector<Region> FindRegions(const onnx::GraphProto& graph) {
  const graph::GraphIndex index(graph);
  std::vector<int> owner(static_cast<size_t>(graph.node_size()), -1);  // node of the compute layer
  const auto owner_of = [&owner](int node) -> int& { return owner[static_cast<size_t>(node)]; };
  for (int i = 0; i < graph.node_size(); ++i) {
    if (graph::IsComputeNode(graph.node(i))) {
      owner_of(i) = i;
      continue;
    }
    for (const std::string& input : graph.node(i).input()) {
      const int producer = index.ProducerPosition(input);
      if (producer >= 0) owner_of(i) = std::max(owner_of(i), owner_of(producer));
    }
  }
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    if (owner_of(i) >= 0) continue;
    for (const std::string& output : graph.node(i).output()) {
      for (const graph::TensorUse& use : index.Uses(output)) {
        const int next = owner_of(use.node);
        if (next >= 0 && (owner_of(i) < 0 || next < owner_of(i))) owner_of(i) = next;
      }
    }
  }
  std::map<int, Region> regions;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (owner_of(i) < 0) continue;
    Region& region = regions[owner_of(i)];
    region.layer = graph.node(owner_of(i)).name();
    region.nodes.push_back(graph.node(i).name());
  }
  std::vector<Region> result;
  for (auto& [position, region] : regions) result.push_back(std::move(region));
  return result;
}

namespace {

// Float tensors that nodes make or the user gives.
int Activations(const onnx::NodeProto& node, const graph::GraphIndex& index) {
  std::set<std::string_view> tensors;
  for (const std::string& input : node.input()) {
    if (!input.empty() && !index.IsInitializer(input) &&
        index.ElemType(input) == onnx::TensorProto::FLOAT) {
      tensors.insert(input);
    }
  }
  return static_cast<int>(tensors.size());
}

bool MakesFloats(const onnx::NodeProto& node, const graph::GraphIndex& index) {
  return index.ElemType(graph::OutputName(node, 0)) == onnx::TensorProto::FLOAT;
}

// Compute layers between `tensor` and `end`, or a join: the branch of a residual block. Empty when
// a path ends elsewhere.
std::vector<std::string> LayersBefore(std::string_view tensor, std::string_view end,
                                      const graph::GraphIndex& index) {
  constexpr size_t kMostLayers = 8;
  std::vector<std::string> layers;
  std::vector<std::string_view> open{tensor};
  std::set<std::string_view> seen;
  while (!open.empty()) {
    const std::string_view at = open.back();
    open.pop_back();
    if (at == end || index.IsInitializer(at) || !seen.insert(at).second) continue;
    const onnx::NodeProto* node = index.Producer(at);
    if (node == nullptr || layers.size() > kMostLayers) return {};
    if (graph::IsComputeNode(*node)) layers.push_back(node->name());
    for (const std::string& input : node->input()) {
      if (!input.empty()) open.push_back(input);
    }
  }
  return layers;
}

}  // namespace

std::vector<Region> FindJoins(const onnx::GraphProto& graph) {
  const graph::GraphIndex index(graph);
  std::vector<int> joined(static_cast<size_t>(graph.node_size()), -1);  // number of the group
  const auto group_of = [&joined](int node) -> int& { return joined[static_cast<size_t>(node)]; };
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    if (graph::IsComputeNode(node) || !MakesFloats(node, index)) continue;
    std::set<int> before;
    for (const std::string& input : node.input()) {
      const int producer = index.ProducerPosition(input);
      if (producer >= 0 && group_of(producer) >= 0) before.insert(group_of(producer));
    }
    if (before.empty() && Activations(node, index) < 2) continue;
    group_of(i) = before.empty() ? i : *before.begin();
    for (int& group : joined) {
      if (before.contains(group)) group = group_of(i);
    }
  }
  std::map<int, Region> groups;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (group_of(i) >= 0) groups[group_of(i)].nodes.push_back(graph.node(i).name());
  }
  std::vector<Region> result;
  for (auto& [number, group] : groups) result.push_back(std::move(group));
  return result;
}

std::vector<std::vector<size_t>> FindBlocks(const onnx::GraphProto& graph,
                                            const std::vector<Region>& regions) {
  const graph::GraphIndex index(graph);
  std::map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (!regions[i].layer.empty()) numbers[regions[i].layer] = i;
  }
  std::set<std::vector<size_t>> blocks;
  const auto add = [&](const std::vector<std::string>& layers) {
    std::set<size_t> block;
    for (const std::string& layer : layers) {
      if (const auto found = numbers.find(layer); found != numbers.end())
        block.insert(found->second);
    }
    if (block.size() > 1) blocks.emplace(block.begin(), block.end());
  };
  for (const onnx::NodeProto& node : graph.node()) {
    if (graph::IsOp(node, "Add") && Activations(node, index) == 2) {
      add(LayersBefore(node.input(0), node.input(1), index));
      add(LayersBefore(node.input(1), node.input(0), index));
    }
  }
  std::vector<std::string> attention = graph::AttentionNodes(graph);
  for (const std::string& name : attention) {
    const onnx::NodeProto* softmax = index.FindNode(name);
    if (softmax == nullptr || !graph::IsOp(*softmax, "Softmax")) continue;
    // The products lie next to it in the list, which is in graph order.
    const auto at = std::find(attention.begin(), attention.end(), name);
    std::vector<std::string> around;
    if (at != attention.begin()) around.push_back(*std::prev(at));
    if (std::next(at) != attention.end()) around.push_back(*std::next(at));
    add(around);
  }
  return {blocks.begin(), blocks.end()};
}

int CountBorders(const onnx::GraphProto& graph, const std::vector<std::string>& promoted) {
  const graph::GraphIndex index(graph);
  const std::set<std::string_view> inside(promoted.begin(), promoted.end());
  std::set<std::string_view> borders;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) {
      const onnx::NodeProto* producer = index.Producer(input);
      if (producer == nullptr) continue;
      if (inside.contains(node.name()) != inside.contains(producer->name())) borders.insert(input);
    }
  }
  return static_cast<int>(borders.size());
}

}  // namespace gq::explore
