#include "common/quantize/recover/folding.h"

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/shape_inference.h"
#include "common/quantize/recover/scaling.h"
#include "common/quantize/targets.h"

namespace gq::quantize {
namespace {

using graph::GraphIndex;
using graph::InputName;
using graph::IsOp;
using Names = absl::flat_hash_set<std::string>;

bool Near(double value, double wanted) { return std::abs(value - wanted) <= 1e-5 * wanted; }

// The number a Mul multiplies `data` by, or a Div divides it by: what the node's result is of its
// data input.
struct Factor {
  std::string data;
  double value = 1;
};

std::optional<Factor> ReadFactor(const onnx::NodeProto& node, const ConstantReader& constants) {
  const bool divides = IsOp(node, "Div");
  if ((!divides && !IsOp(node, "Mul")) || node.input_size() != 2) return std::nullopt;
  for (const int constant : {1, 0}) {
    if (divides && constant == 0) continue;
    const auto number = constants.Number(node.input(constant));
    if (!number || *number == 0 || !std::isfinite(*number)) continue;
    const std::string& data = node.input(1 - constant);
    if (constants.index().IsInitializer(data)) continue;
    return Factor{data, divides ? 1 / *number : *number};
  }
  return std::nullopt;
}

struct HardSwish {
  std::string input;
  std::vector<int> nodes;  // Add, Clip, ..., the last one last
  bool swish = false;      // times the input
};

std::optional<HardSwish> FindHardSwish(int position, const ConstantReader& constants) {
  const GraphIndex& index = constants.index();
  const onnx::NodeProto& add = index.node(position);
  if (!IsOp(add, "Add")) return std::nullopt;
  HardSwish found;
  for (const int constant : {0, 1}) {
    const auto number = constants.Number(InputName(add, constant));
    if (number && *number == 3) found.input = add.input(1 - constant);
  }
  if (found.input.empty() || index.IsInitializer(found.input)) return std::nullopt;
  const onnx::NodeProto* clip = index.OnlyConsumer(add.output(0));
  if (clip == nullptr || !IsOp(*clip, "Clip") ||
      constants.Number(InputName(*clip, 1)) != std::optional<double>(0) ||
      constants.Number(InputName(*clip, 2)) != std::optional<double>(6)) {
    return std::nullopt;
  }
  found.nodes = {position, index.PositionOf(*clip)};
  const onnx::NodeProto* next = index.OnlyConsumer(clip->output(0));
  if (next == nullptr) return std::nullopt;
  if (IsOp(*next, "Mul") && (next->input(0) == found.input || next->input(1) == found.input)) {
    found.swish = true;
    found.nodes.push_back(index.PositionOf(*next));
    next = index.OnlyConsumer(next->output(0));
    if (next == nullptr) return std::nullopt;
  }
  const auto factor = ReadFactor(*next, constants);
  if (!factor || !Near(factor->value, 1.0 / 6)) return std::nullopt;
  found.nodes.push_back(index.PositionOf(*next));
  return found;
}

void Fuse(const HardSwish& found, graph::Model* model) {
  onnx::GraphProto* graph = model->mutable_graph();
  graph::NameScope names(*graph);
  const onnx::NodeProto last = graph->node(found.nodes.back());
  std::string gate = last.output(0), gate_node = last.name();
  if (found.swish) {
    gate = names.Unique(base::StrCat(last.output(0), "_gate"));
    gate_node = names.UniqueNode(base::StrCat(last.name(), "_HardSigmoid"));
  }
  onnx::NodeProto sigmoid = graph::MakeNode("HardSigmoid", gate_node, {found.input}, {gate});
  graph::SetAttribute("alpha", 1.0f / 6.0f, &sigmoid);
  graph::SetAttribute("beta", 0.5f, &sigmoid);
  const int place = found.nodes.back() + 1;
  if (found.swish) {
    const auto shape = GraphIndex(*graph).StaticShape(found.input);
    if (shape) graph::SetValueInfo(gate, onnx::TensorProto::FLOAT, *shape, graph);
    graph::InsertNode(
        place, graph::MakeNode("Mul", last.name(), {found.input, gate}, {last.output(0)}), graph);
  }
  graph::InsertNode(place, std::move(sigmoid), graph);
  graph::RemoveNodes(found.nodes, graph);
}

// Follows a common factor through the graph and notes the constants that take it.
class FactorRoute {
 public:
  explicit FactorRoute(const ConstantReader& constants)
      : constants_(constants), index_(constants.index()) {}

  const std::vector<ConstantEdit>& edits() const { return edits_; }

  // `tensor` will hold 1 / factor of what it held; its readers make up for it.
  bool Forward(const std::string& tensor, double factor) {
    if (index_.IsGraphOutput(tensor)) return false;
    for (const auto& use : index_.Uses(tensor)) {
      if (use.input == graph::TensorUse::kCaptured || !seen_.insert(use.node).second) return false;
      if (!ForwardInto(use, factor)) return false;
    }
    return true;
  }

  // `tensor` will hold `factor` times what it held.
  bool Backward(const std::string& tensor, double factor) {
    const int position = index_.ProducerPosition(tensor);
    if (position < 0 || index_.OnlyConsumer(tensor) == nullptr || !seen_.insert(position).second) {
      return false;
    }
    const onnx::NodeProto& node = index_.node(position);
    if (IsLinearLayer(node, constants_)) {
      edits_.push_back({position, 1, factor});
      if (InputName(node, 2).empty()) return true;
      if (!index_.IsInitializer(node.input(2))) return false;
      edits_.push_back({position, 2, factor});
      return true;
    }
    if (PassesFactors(node, factor)) return Backward(node.input(0), factor);
    const int constant = ConstantOperand(node);
    if (constant >= 0 && IsOp(node, "Add")) {
      edits_.push_back({position, constant, factor});
      return Backward(node.input(1 - constant), factor);
    }
    if (constant >= 0 && IsOp(node, "Mul")) {
      edits_.push_back({position, constant, factor});
      return true;
    }
    if (IsOp(node, "MatMul") && constant < 0) return Backward(node.input(0), factor);
    return false;
  }

 private:
  // The constant of a node of two inputs; -1 without one.
  int ConstantOperand(const onnx::NodeProto& node) const {
    if (node.input_size() != 2) return -1;
    for (const int input : {0, 1}) {
      if (constants_.IsFloat(node.input(input)) && !index_.IsInitializer(node.input(1 - input))) {
        return input;
      }
    }
    return -1;
  }

  bool ForwardInto(const graph::TensorUse& use, double factor) {
    const onnx::NodeProto& node = index_.node(use.node);
    if (IsLinearLayer(node, constants_)) {
      if (use.input == 0) edits_.push_back({use.node, 1, factor});
      return use.input == 0;
    }
    if (use.input == 0 && PassesFactors(node, factor)) return Forward(node.output(0), factor);
    const int constant = ConstantOperand(node);
    if (IsOp(node, "Add") && constant >= 0) {
      edits_.push_back({use.node, constant, 1 / factor});
      return Forward(node.output(0), factor);
    }
    if (IsOp(node, "Mul") && constant >= 0) {
      edits_.push_back({use.node, constant, factor});
      return true;
    }
    if (IsOp(node, "Div") && constant == 1) {
      edits_.push_back({use.node, constant, 1 / factor});
      return true;
    }
    const bool product = IsOp(node, "Mul") || IsOp(node, "MatMul");
    if (constant < 0 && node.input_size() == 2 && node.input(0) != node.input(1) &&
        (product || (IsOp(node, "Div") && use.input == 0))) {
      return Forward(node.output(0), factor);
    }
    return false;
  }

  const ConstantReader& constants_;
  const GraphIndex& index_;
  std::set<int> seen_;  // a node that meets the factor twice would see its square
  std::vector<ConstantEdit> edits_;
};

}  // namespace

int FuseHardSwish(const Names& kept, graph::Model* model) {
  int changed = 0;
  auto index_of_graph = std::make_unique<GraphIndex>(model->graph());
  for (int position = 0; position < model->graph().node_size(); ++position) {
    const GraphIndex& index = *index_of_graph;
    const auto found = FindHardSwish(position, ConstantReader(*model, index));
    if (!found) continue;
    bool free = true;
    for (const int node : found->nodes) free = free && !kept.contains(index.node(node).name());
    if (!free) continue;
    Fuse(*found, model);
    index_of_graph = std::make_unique<GraphIndex>(model->graph());
    ++changed;
  }
  if (changed > 0) graph::RemoveUnusedInitializers(model->mutable_graph());
  return changed;
}

int FoldFactors(const Names& kept, graph::Model* model) {
  int changed = 0;
  auto index_of_graph = std::make_unique<GraphIndex>(model->graph());
  for (int position = 0; position < model->graph().node_size(); ++position) {
    const GraphIndex& index = *index_of_graph;
    const ConstantReader constants(*model, index);
    const onnx::NodeProto& node = index.node(position);
    const auto factor = ReadFactor(node, constants);
    if (!factor || kept.contains(node.name()) ||
        index.Shape(factor->data) != index.Shape(node.output(0))) {
      continue;
    }
    FactorRoute forward(constants);
    std::vector<ConstantEdit> edits;
    if (forward.Forward(node.output(0), factor->value)) {
      edits = forward.edits();
    } else {
      FactorRoute backward(constants);
      if (!backward.Backward(factor->data, factor->value)) continue;
      edits = backward.edits();
    }
    const std::string data = factor->data;
    if (!graph::BypassNode(position, data, model->mutable_graph())) continue;
    // The node is gone, and those behind it stand one place earlier.
    for (ConstantEdit& edit : edits) edit.node -= edit.node > position ? 1 : 0;
    ScaleConstants(edits, model);
    index_of_graph = std::make_unique<GraphIndex>(model->graph());
    --position;
    ++changed;
  }
  if (changed > 0) graph::RemoveUnusedInitializers(model->mutable_graph());
  return changed;
}

absl::StatusOr<int> FoldActivations::Run(const RecoveryData& data, RecoveryState& state) const {
  if (state.config.activation.scale_type != ScaleType::kPowerOfTwo) return 0;
  GQ_ASSIGN_OR_RETURN(const Targets targets,
                      ResolveTargets(state.config, GraphIndex(state.source.graph()), data.origin));
  Names kept = targets.excluded;
  kept.insert(targets.mixed_nodes.begin(), targets.mixed_nodes.end());
  const int changed = FuseHardSwish(kept, &state.source) + FoldFactors(kept, &state.source);
  if (changed == 0) return 0;
  GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, &state.source));
  state.source.CompactStore();
  state.table = {};  // tensors of the same name hold other values now
  state.stale = true;
  state.rewritten = true;
  return changed;
}

}  // namespace gq::quantize
