#include "common/quantize/placement.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/quantize/operator_rules.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {

Placer::Placer(const graph::GraphIndex& index, const Settings& settings, const Targets& targets)
    : index_(index), settings_(settings), targets_(targets) {}

bool Placer::IsQuantizable(std::string_view tensor) const {
  if (tensor.empty()) return false;
  if (const onnx::TensorProto* initializer = index_.Initializer(tensor)) {
    return initializer->data_type() == onnx::TensorProto::FLOAT;
  }
  if (settings_.weights_only || silent_outputs_.contains(base::ToAbsl(tensor))) return false;
  return index_.ElemType(tensor) == onnx::TensorProto::FLOAT;
}

bool Placer::IsMarked(std::string_view tensor) const {
  return placement_.Contains(tensor) || biases_.contains(base::ToAbsl(tensor));
}

PlannedTensor* Placer::Slot(std::string_view tensor) {
  const auto [it, added] =
      placement_.positions.try_emplace(std::string(tensor), placement_.tensors.size());
  if (added) placement_.tensors.push_back({.name = std::string(tensor)});
  return &placement_.tensors[it->second];
}

void Placer::Mark(std::string_view tensor) {
  if (IsQuantizable(tensor)) Slot(tensor);
}

void Placer::MarkPerChannel(std::string_view tensor, int axis) {
  if (!index_.IsInitializer(tensor) || !IsQuantizable(tensor)) return;
  PlannedTensor* slot = Slot(tensor);
  slot->axis = axis;
  slot->shares_with.clear();
}

void Placer::MarkShared(std::string_view output, std::string_view input) {
  if (!IsQuantizable(output)) return;
  PlannedTensor* slot = Slot(output);
  // With types of their own on either side each has its own parameters.
  slot->shares_with = std::string(input);
  slot->axis = -1;
}

int Placer::ChannelAxis(std::string_view tensor, int axis) const {
  const onnx::TensorProto* initializer = index_.Initializer(tensor);
  if (initializer == nullptr || !settings_.per_channel ||
      targets_.Override(std::string(tensor)) != nullptr) {
    return -1;
  }
  const int rank = initializer->dims_size();
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? axis : -1;
}

void Placer::MarkWeight(std::string_view tensor, int axis) {
  const int channel_axis = ChannelAxis(tensor, axis);
  if (channel_axis >= 0) {
    MarkPerChannel(tensor, channel_axis);
  } else {
    Mark(tensor);
  }
}

void Placer::MarkBias(const onnx::NodeProto& node, std::string_view bias, float beta) {
  if (!index_.IsInitializer(bias) || !IsQuantizable(bias)) return;
  if (settings_.path != Path::kNpuCnn && targets_.Override(std::string(bias)) != nullptr) {
    Mark(bias);
    return;
  }
  if (!settings_.quantize_bias) return;
  if (settings_.int32_bias) {
    const auto [first, added] = biases_.try_emplace(std::string(bias), &node);
    // Quark gives all readers the scale of the first.
    if (!added && settings_.quark) return;
    placement_.biases.push_back({.name = std::string(bias),
                                 .input = node.input(0),
                                 .weight = node.input(1),
                                 .beta = beta,
                                 .node = &node,
                                 .copy_of = added ? nullptr : first->second});
  } else if (settings_.path != Path::kNpuCnn && settings_.per_channel) {
    MarkPerChannel(bias, 0);
  } else {
    Mark(bias);
  }
}

bool Placer::QuantizesOutput(const onnx::NodeProto& node) const {
  return !settings_.no_output_types.contains(node.op_type());
}

bool Placer::Absorb(const onnx::NodeProto& node) {
  if (settings_.activation_symmetric || settings_.keep_removable_activations ||
      !settings_.fold_relu) {
    return false;
  }
  const std::string& input = node.input(0);
  const auto uses = index_.Uses(input);
  if (uses.size() != 1 || index_.IsGraphOutput(input) || index_.IsGraphInput(input)) return false;
  placement_.absorbed.push_back(&node);
  absorbed_tensors_.insert(input);
  return true;
}

void Placer::Refuse(const onnx::NodeProto& node, std::string reason) {
  placement_.unquantized.push_back({&node, std::move(reason)});
}

bool Placer::HasStaticResults(const onnx::NodeProto& node) const {
  return std::all_of(node.output().begin(), node.output().end(), [&](const std::string& output) {
    return output.empty() || index_.StaticShape(output).has_value() ||
           (index_.Uses(output).empty() && !index_.IsGraphOutput(output));
  });
}

std::string Placer::ReasonOfExclusion(const onnx::NodeProto& node) const {
  if (!settings_.quark && !graph::IsKnownDomain(node.domain())) {
    return base::StrCat("operators of the domain ", node.domain(), " are kept as they are");
  }
  if (const auto it = targets_.reasons.find(node.name()); it != targets_.reasons.end()) {
    return it->second;
  }
  return targets_.excluded.contains(node.name()) ? "excluded by the configuration"
                                                 : "operator type is not quantized";
}

Placement Placer::Run() && {
  for (const auto& node : index_.graph().node()) {
    if (!settings_.no_output_nodes.contains(node.name())) continue;
    for (const auto& output : node.output()) silent_outputs_.insert(output);
  }
  for (const auto& node : index_.graph().node()) {
    if (!IsSelected(node, settings_, targets_)) {
      Refuse(node, ReasonOfExclusion(node));
      continue;
    }
    if (!settings_.quark && !HasStaticResults(node)) {
      Refuse(node, "the shape of its result depends on the data or is not known");
      continue;
    }
    const size_t refused = placement_.unquantized.size();
    PlaceNode(node, *this);
    if (placement_.unquantized.size() == refused) placement_.quantized.insert(&node);
    if (!settings_.dedicated_pairs) continue;
    for (const auto& input : node.input()) {
      if (!input.empty()) placement_.readers[input].push_back(&node);
    }
  }
  DropAbsorbed();
  return std::move(placement_);
}

void Placer::DropAbsorbed() {
  if (absorbed_tensors_.empty()) return;
  std::erase_if(placement_.tensors, [this](const PlannedTensor& tensor) {
    return absorbed_tensors_.contains(tensor.name);
  });
  placement_.positions.clear();
  for (size_t i = 0; i < placement_.tensors.size(); ++i) {
    placement_.positions.emplace(placement_.tensors[i].name, i);
  }
}

Placement PlaceQuantization(const graph::GraphIndex& index, const Settings& settings,
                            const Targets& targets) {
  return Placer(index, settings, targets).Run();
}

bool IsSelected(const onnx::NodeProto& node, const Settings& settings, const Targets& targets) {
  return settings.op_types.contains(node.op_type()) && node.op_type() != "QuantizeLinear" &&
         node.op_type() != "DequantizeLinear" &&
         (settings.quark || graph::IsKnownDomain(node.domain())) &&
         (settings.only_nodes.empty() || settings.only_nodes.contains(node.name())) &&
         (node.name().empty() || !targets.excluded.contains(node.name()));
}

}  // namespace gq::quantize
