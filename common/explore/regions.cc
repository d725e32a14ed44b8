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
