#include "common/quantize/fused_pairs.h"

#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/topological_order.h"

namespace gq::quantize {
namespace {

bool IsAveragePool(std::string_view op_type) {
  return op_type == "AveragePool" || op_type == "GlobalAveragePool";
}

const onnx::TensorProto* FindInitializer(const onnx::GraphProto& graph, std::string_view name) {
  for (const auto& initializer : graph.initializer()) {
    if (initializer.name() == name) return &initializer;
  }
  return nullptr;
}

bool IsConstant(const onnx::GraphProto& graph, const graph::Model& model, const std::string& name,
                double value) {
  constexpr double kTolerance = 1e-6;
  const onnx::TensorProto* initializer = FindInitializer(graph, name);
  if (initializer == nullptr) return false;
  const auto data = model.Data(*initializer);
  return data.ok() && data->size() == 1 && std::fabs(data->At(0) - value) < kTolerance;
}

bool HasOneReader(const graph::GraphIndex& index, std::string_view tensor, bool quark) {
  if (!quark) return index.OnlyConsumer(tensor) != nullptr && index.Uses(tensor).size() == 1;
  int readers = index.IsInitializer(tensor) ? 1 : 0;
  for (const auto& use : index.Uses(tensor)) {
    if (use.input != graph::TensorUse::kCaptured) ++readers;
  }
  return readers == 1;
}

}  // namespace

bool IsFusableProducer(std::string_view op_type) {
  return op_type == "Conv" || op_type == "Add" || op_type == "MaxPool" || IsAveragePool(op_type) ||
         op_type == "MatMul" || op_type == "Gemm" || op_type == "ConvTranspose";
}

bool IsFusableActivation(const onnx::NodeProto& node, const onnx::GraphProto& graph,
                         const graph::Model& model, const absl::flat_hash_set<std::string>& types) {
  if (!types.contains(node.op_type())) return false;
  if (node.op_type() != "Clip") return true;
  return node.input_size() == 3 && IsConstant(graph, model, node.input(1), 0) &&
         (IsConstant(graph, model, node.input(2), 6) || IsConstant(graph, model, node.input(2), 1));
}

absl::flat_hash_set<std::string> FusedTensors(const graph::GraphIndex& index,
                                              const graph::Model& model, const Settings& settings) {
  absl::flat_hash_set<std::string> tensors;
  for (const auto& node : index.graph().node()) {
    if (node.input_size() == 0) continue;
    const std::string& input = node.input(0);
    const onnx::NodeProto* producer = index.Producer(input);
    if (producer == nullptr || producer->output(0) != input ||
        !HasOneReader(index, input, settings.quark)) {
      continue;
    }
    const bool activation = IsFusableProducer(producer->op_type()) &&
                            IsFusableActivation(node, index.graph(), model, settings.fused_types);
    if (activation || (producer->op_type() == "Pad" && IsAveragePool(node.op_type()))) {
      tensors.insert(input);
    }
  }
  return tensors;
}

namespace {

// Quark lets only these read what was before a removed pair.
bool TakesFusedInput(const onnx::NodeProto& node, const QuantizeContext& context) {
  if (!context.settings.quark) return !IsDequantizeNode(node);
  return IsAveragePool(node.op_type()) || node.op_type() == "Clip" ||
         IsFusableActivation(node, context.float_model.graph(), context.float_model,
                             context.settings.fused_types);
}

// Removes every pair that starts on one of `tensors`. Returns how many.
int RemovePairsOn(const absl::flat_hash_set<std::string>& tensors, QuantizeContext& context) {
  onnx::GraphProto* graph = context.model.mutable_graph();
  std::vector<int> gone;
  absl::flat_hash_map<std::string, std::string> sources;  // output of a pair -> tensor before it
  for (int i = 0; i < graph->node_size(); ++i) {
    const auto& node = graph->node(i);
    if (!IsQuantizeNode(node) || !tensors.contains(node.input(0))) continue;
    sources[node.output(0)] = node.input(0);
    gone.push_back(i);
  }
  const int removed = static_cast<int>(gone.size());
  for (int i = 0; i < graph->node_size(); ++i) {
    const auto& node = graph->node(i);
    if (!IsDequantizeNode(node)) continue;
    const auto it = sources.find(node.input(0));
    if (it == sources.end()) continue;
    const std::string source = it->second;
    sources[node.output(0)] = source;
    gone.push_back(i);
  }
  for (auto& node : *graph->mutable_node()) {
    if (node.input_size() == 0) continue;
    const auto it = sources.find(node.input(0));
    if (it != sources.end() && TakesFusedInput(node, context)) *node.mutable_input(0) = it->second;
  }
  graph::RemoveNodes(std::move(gone), graph);
  return removed;
}

}  // namespace

absl::StatusOr<int> RemoveFusedPairs::Run(QuantizeContext& context) const {
  const auto tensors = FusedTensors(context.index, context.float_model, context.settings);
  onnx::GraphProto* graph = context.model.mutable_graph();
  if (context.settings.quark) {
    const onnx::GraphProto before = *graph;
    const int removed = RemovePairsOn(tensors, context);
    // A second pair behind a removed one then hangs in the air, and Quark keeps them all.
    if (SortBreadthFirst(graph).ok()) return removed;
    *graph = before;
    return 0;
  }
  int removed = 0;
  while (const int more = RemovePairsOn(tensors, context)) removed += more;
  GQ_RETURN_IF_ERROR(graph::SortTopologically(graph));
  return removed;
}

}  // namespace gq::quantize
