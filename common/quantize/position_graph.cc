#include "common/quantize/position_graph.h"

#include "common/base/text.h"
#include "common/quantize/fused_pairs.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::quantize {
namespace {

bool IsAveragePool(const onnx::NodeProto& node) {
  return node.op_type() == "AveragePool" || node.op_type() == "GlobalAveragePool";
}

}  // namespace

PositionGraph::PositionGraph(graph::Model& model, const Settings& settings)
    : model_(model), settings_(settings), initializers_(model) {
  int position = 0;
  for (const auto& node : model.graph().node()) {
    order_[&node] = position++;
    if (node.output_size() > 0) producers_.emplace(node.output(0), &node);
    if (node.input_size() > 0) readers_[node.input(0)].push_back(&node);
  }
}

const std::vector<const onnx::NodeProto*>& PositionGraph::FirstReaders(
    std::string_view tensor) const {
  static const std::vector<const onnx::NodeProto*> kNone;
  const auto it = readers_.find(base::ToAbsl(tensor));
  return it == readers_.end() ? kNone : it->second;
}

PositionSlot PositionGraph::SlotOf(const onnx::NodeProto* node) const {
  if (node == nullptr || !IsQdqNode(*node) || node->input_size() < 2) return {};
  return {node, PositionOfScale(initializers_.Scale(node->input(1)))};
}

PositionSlot PositionGraph::Producing(std::string_view tensor) const {
  const auto it = producers_.find(base::ToAbsl(tensor));
  return it == producers_.end() ? PositionSlot{} : SlotOf(it->second);
}

PositionSlot PositionGraph::Reading(std::string_view tensor) const {
  for (const onnx::NodeProto* node : FirstReaders(tensor)) {
    if (IsQdqNode(*node)) return SlotOf(node);
  }
  return {};
}

PositionSlot PositionGraph::Input(const onnx::NodeProto& node, int input) const {
  return input < node.input_size() ? Producing(node.input(input)) : PositionSlot{};
}

PositionSlot PositionGraph::PoolInput(const onnx::NodeProto& node) const {
  const PositionSlot direct = Input(node);
  if (direct || node.input_size() == 0 || !IsAveragePool(node)) return direct;
  const auto producer = producers_.find(node.input(0));
  if (producer == producers_.end() || producer->second->input_size() == 0) return {};
  return Producing(producer->second->input(0));
}

PositionSlot PositionGraph::Output(const onnx::NodeProto& node) const {
  const bool has_factor = IsAveragePool(node) || node.op_type() == "HardSigmoid";
  const bool fuses = IsFusableProducer(node.op_type());
  std::string_view tensor = node.output(0);
  int behind = -1;
  while (true) {
    if (const PositionSlot slot = Reading(tensor)) return slot;
    const onnx::NodeProto* next = nullptr;
    for (const onnx::NodeProto* reader : FirstReaders(tensor)) {
      // One walk forward over the node list: what stands before the last step is not seen again.
      if (order_.at(reader) <= behind) continue;
      if ((has_factor && reader->op_type() == "Mul") ||
          (fuses && IsFusableActivation(*reader, model_.graph(), model_, settings_.fused_types))) {
        next = reader;
        break;
      }
    }
    if (next == nullptr) return {};
    behind = order_.at(next);
    tensor = next->output(0);
  }
}

void PositionGraph::Set(const PositionSlot& slot, int position) {
  initializers_.SetScale(slot.node->input(1), ScaleOfPosition(position));
}

}  // namespace gq::quantize
