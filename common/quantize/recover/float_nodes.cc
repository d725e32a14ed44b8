#include "common/quantize/recover/float_nodes.h"

#include <algorithm>
#include <set>

#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::quantize {
namespace {

using graph::GraphIndex;

// The node of the user's model whose work `node` does now; `node` itself without an origin, or when
// nothing of the user's became it.
std::string UsersName(const std::string& node, const ModelOrigin* origin) {
  if (origin == nullptr) return node;
  for (const auto& candidate : origin->graph->node()) {
    if (candidate.name() == node && !origin->renamed_nodes.contains(node)) return node;
  }
  for (const auto& [before, now] : origin->renamed_nodes) {
    if (now == node) return before;
  }
  return node;
}

bool IsWide(const onnx::NodeProto& node, const GraphIndex& index) {
  static const std::set<std::string> kTypes = {
      "Pow", "Sqrt", "Log", "Exp", "Reciprocal", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"};
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  if (kTypes.contains(node.op_type())) return true;
  if (graph::IsOp(node, "Mul")) return node.input(0) == node.input(1);
  return graph::IsOp(node, "Div") && !index.IsInitializer(node.input(1));
}

// Nodes that are reached from `starts` without passing a compute layer, themselves included.
template <typename Neighbours>
std::set<int> Reached(const std::vector<int>& starts, const GraphIndex& index,
                      const Neighbours& neighbours) {
  std::set<int> seen;
  std::vector<int> open = starts;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int next : neighbours(index.node(node))) {
      if (graph::IsComputeNode(index.node(next)) || !seen.insert(next).second) continue;
      open.push_back(next);
    }
  }
  return seen;
}

}  // namespace

int KeepFloat(const std::vector<std::string>& nodes, const RecoveryData& data,
              RecoveryState& state) {
  std::vector<std::string>& exclude = state.config.exclude;
  int added = 0;
  for (const std::string& node : nodes) {
    const std::string name = UsersName(node, data.origin);
    if (std::find(exclude.begin(), exclude.end(), name) != exclude.end()) continue;
    exclude.push_back(name);
    ++added;
  }
  return added;
}

std::vector<std::string> WideFunctions(const onnx::GraphProto& graph) {
  const GraphIndex index(graph);
  std::vector<int> wide;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (IsWide(graph.node(i), index)) wide.push_back(i);
  }
  const std::set<int> behind = Reached(wide, index, [&](const onnx::NodeProto& node) {
    std::vector<int> readers;
    for (const auto& output : node.output()) {
      for (const auto& use : index.Uses(output)) readers.push_back(use.node);
    }
    return readers;
  });
  const std::set<int> before = Reached(wide, index, [&](const onnx::NodeProto& node) {
    std::vector<int> producers;
    for (const auto& input : node.input()) {
      if (const int producer = index.ProducerPosition(input); producer >= 0) {
        producers.push_back(producer);
      }
    }
    return producers;
  });
  std::vector<std::string> names;
  for (int i = 0; i < graph.node_size(); ++i) {
    const bool between = behind.contains(i) && before.contains(i);
    if (between || std::find(wide.begin(), wide.end(), i) != wide.end()) {
      names.push_back(graph.node(i).name());
    }
  }
  return names;
}

absl::StatusOr<int> FloatFunctions::Run(const RecoveryData& data, RecoveryState& state) const {
  if (state.config.activation.scale_type != ScaleType::kPowerOfTwo) return 0;
  const int changed = KeepFloat(WideFunctions(state.source.graph()), data, state);
  state.stale = changed > 0;
  return changed;
}

}  // namespace gq::quantize
