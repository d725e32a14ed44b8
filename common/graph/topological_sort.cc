#include <functional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

// What a graph and the graphs around it define.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_set<std::string> names;

  bool Contains(const std::string& name) const {
    return names.contains(name) || (outer != nullptr && outer->Contains(name));
  }
};

std::vector<std::string> Needs(const onnx::NodeProto& node) {
  std::vector<std::string> needs;
  for (const auto& input : node.input()) {
    if (!input.empty()) needs.push_back(input);
  }
  for (auto& name : CapturedNames(node)) needs.push_back(std::move(name));
  return needs;
}

absl::Status Missing(const onnx::NodeProto& node, const std::string& tensor) {
  return base::MakeError(Reason::kModelInvalid,
                         StrCat(Describe(node), " reads tensor '", tensor,
                                "', which is no graph input, no initializer and no node's output"));
}

absl::Status Sort(onnx::GraphProto* graph, const Scope* outer);

absl::Status SortSubgraphs(onnx::GraphProto* graph, const Scope& scope) {
  absl::Status status;
  for (auto& node : *graph->mutable_node()) {
    ForEachMutableSubgraph(&node, [&](auto* inner) {
      if (status.ok()) status = Sort(inner, &scope);
    });
  }
  return status;
}

absl::Status CycleError(const onnx::GraphProto& graph, const std::vector<int>& open) {
  std::vector<std::string> names;
  for (int i = 0; i < graph.node_size() && names.size() < 5; ++i) {
    if (open[i] > 0) names.push_back(Describe(graph.node(i)));
  }
  return base::MakeError(
      Reason::kModelInvalid,
      StrCat("the graph has a cycle; on it or behind it: ", base::StrJoin(names, ", ")));
}

absl::Status Sort(onnx::GraphProto* graph, const Scope* outer) {
  Scope scope{outer, {}};
  for (const auto& input : graph->input()) scope.names.insert(input.name());
  for (const auto& initializer : graph->initializer()) scope.names.insert(initializer.name());
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < graph->node_size(); ++i) {
    for (const auto& output : graph->node(i).output()) {
      if (output.empty()) continue;
      if (!producer.try_emplace(output, i).second) {
        return base::MakeError(
            Reason::kModelInvalid,
            StrCat("tensor '", output, "' is made by two nodes: ",
                   Describe(graph->node(producer[output])), " and ", Describe(graph->node(i))));
      }
    }
  }
  std::vector<int> open(graph->node_size(), 0);
  std::vector<std::vector<int>> readers(graph->node_size());
  for (int i = 0; i < graph->node_size(); ++i) {
    for (const auto& need : Needs(graph->node(i))) {
      const auto it = producer.find(need);
      if (it != producer.end()) {
        ++open[i];
        readers[it->second].push_back(i);
      } else if (!scope.Contains(need)) {
        return Missing(graph->node(i), need);
      }
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < graph->node_size(); ++i) {
    if (open[i] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const int reader : readers[i]) {
      if (--open[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() != open.size()) return CycleError(*graph, open);

  std::vector<onnx::NodeProto*> nodes(graph->node_size());
  graph->mutable_node()->ExtractSubrange(0, graph->node_size(), nodes.data());
  for (const int i : order) graph->mutable_node()->AddAllocated(nodes[i]);

  for (const auto& [name, node] : producer) scope.names.insert(name);
  return SortSubgraphs(graph, scope);
}

}  // namespace

absl::Status SortTopologically(onnx::GraphProto* graph) { return Sort(graph, nullptr); }

}  // namespace gq::graph
