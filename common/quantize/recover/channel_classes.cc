#include <algorithm>
#include <numeric>
#include <set>

#include "common/quantize/recover/equalization.h"

namespace gq::quantize {

using graph::AttributeInt;
using graph::InputName;
using graph::IsOp;

ChannelClasses::ChannelClasses(const graph::GraphIndex& index, const ConstantReader& constants)
    : index_(index), constants_(constants) {
  for (const auto& input : index.graph().input()) AddTensor(input.name());
  for (const auto& node : index.graph().node()) {
    for (const auto& output : node.output()) AddTensor(output);
  }
  parents_.resize(frozen_.size());
  std::iota(parents_.begin(), parents_.end(), int64_t{0});
  for (const auto& input : index.graph().input()) Freeze(input.name());
  for (const auto& output : index.graph().output()) Freeze(output.name());
  for (const auto& node : index.graph().node()) Visit(node);
  // A class is frozen as soon as one of its channels is.
  for (size_t i = 0; i < frozen_.size(); ++i) {
    if (frozen_[i]) frozen_[static_cast<size_t>(Find(static_cast<int64_t>(i)))] = true;
  }
}

void ChannelClasses::AddTensor(const std::string& tensor) {
  const auto shape = index_.StaticShape(tensor);
  if (tensor.empty() || !shape || shape->size() < 3 || places_.contains(tensor) ||
      index_.ElemType(tensor) != onnx::TensorProto::FLOAT) {
    return;
  }
  places_.emplace(tensor, std::pair(static_cast<int64_t>(frozen_.size()), (*shape)[1]));
  frozen_.resize(frozen_.size() + static_cast<size_t>((*shape)[1]), false);
  tensors_.push_back(tensor);
}

int64_t ChannelClasses::Channels(const std::string& tensor) const {
  const auto place = places_.find(tensor);
  return place == places_.end() ? 0 : place->second.second;
}

int64_t ChannelClasses::Class(const std::string& tensor, int64_t channel) const {
  const int64_t root = Find(places_.at(tensor).first + channel);
  return frozen_[static_cast<size_t>(root)] ? -1 : root;
}

int64_t ChannelClasses::Find(int64_t element) const {
  while (parents_[static_cast<size_t>(element)] != element) {
    element = parents_[static_cast<size_t>(element)];
  }
  return element;
}

// All channels of b with those of a from `offset` on; both stay as they are where that is not
// possible.
void ChannelClasses::Join(const std::string& a, int64_t offset, const std::string& b) {
  const auto first = places_.find(a), second = places_.find(b);
  if (first == places_.end() || second == places_.end() ||
      offset + second->second.second > first->second.second) {
    Freeze(a);
    Freeze(b);
    return;
  }
  for (int64_t c = 0; c < second->second.second; ++c) {
    const int64_t x = Find(first->second.first + offset + c), y = Find(second->second.first + c);
    // The smaller one leads, so that chains stay short and numbers do not depend on the order.
    parents_[static_cast<size_t>(std::max(x, y))] = std::min(x, y);
    if (frozen_[static_cast<size_t>(x)] || frozen_[static_cast<size_t>(y)]) {
      frozen_[static_cast<size_t>(std::min(x, y))] = true;
    }
  }
}

void ChannelClasses::Freeze(const std::string& tensor) {
  const auto place = places_.find(tensor);
  if (place == places_.end()) return;
  for (int64_t c = 0; c < place->second.second; ++c) {
    frozen_[static_cast<size_t>(Find(place->second.first + c))] = true;
  }
}

void ChannelClasses::FreezeAround(const onnx::NodeProto& node) {
  for (const auto& input : node.input()) Freeze(input);
  for (const auto& output : node.output()) Freeze(output);
  for (const auto& captured : graph::CapturedNames(node)) Freeze(captured);
}

void ChannelClasses::VisitConcat(const onnx::NodeProto& node) {
  if (AttributeInt(node, "axis", 0) != 1) {
    FreezeAround(node);
    return;
  }
  int64_t offset = 0;
  for (const auto& input : node.input()) {
    const auto shape = index_.StaticShape(input);
    if (!shape || shape->size() < 2) {
      FreezeAround(node);
      return;
    }
    if (!index_.IsInitializer(input)) {
      Join(node.output(0), offset, input);
    } else {
      const auto values = constants_.Values(input);
      // Zeros are zeros under any factor.
      if (values.empty() ||
          std::any_of(values.begin(), values.end(), [](float v) { return v != 0; })) {
        Freeze(node.output(0));
      }
    }
    offset += (*shape)[1];
  }
}

// A gate of one value a channel, or a constant, lets the factor of the other operand pass.
void ChannelClasses::VisitProduct(const onnx::NodeProto& node) {
  const auto out = index_.StaticShape(node.output(0));
  for (const int data : {0, 1}) {
    const std::string& x = node.input(data);
    const std::string& gate = node.input(1 - data);
    if (!out || x == gate || index_.IsInitializer(x) || index_.StaticShape(x) != out) continue;
    const auto shape = index_.StaticShape(gate);
    const bool small = shape && shape != out;
    if (!index_.IsInitializer(gate) && !small) continue;
    Join(node.output(0), 0, x);
    Freeze(gate);
    return;
  }
  FreezeAround(node);
}

void ChannelClasses::Visit(const onnx::NodeProto& node) {
  static const std::set<std::string> kKept = {
      "Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool",
      "Pad",  "Identity",  "Slice", "Resize"};
  const bool convolution = IsOp(node, "Conv") || IsOp(node, "ConvTranspose");
  if (convolution && IsLinearLayer(node, constants_) &&
      (InputName(node, 2).empty() || index_.IsInitializer(node.input(2)))) {
    return;
  }
  if (IsOp(node, "Concat")) return VisitConcat(node);
  if (IsOp(node, "Mul")) return VisitProduct(node);
  if ((IsOp(node, "Add") || IsOp(node, "Sub")) &&
      index_.StaticShape(node.input(0)) == index_.StaticShape(node.input(1)) &&
      !index_.IsInitializer(node.input(0)) && !index_.IsInitializer(node.input(1))) {
    Join(node.output(0), 0, node.input(0));
    Join(node.output(0), 0, node.input(1));
    return;
  }
  const bool cubic =
      IsOp(node, "Resize") &&
      graph::AttributeString(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (kKept.contains(node.op_type()) && !cubic && node.output_size() == 1 &&
      PassesFactors(node, 1) && Channels(node.input(0)) == Channels(node.output(0)) &&
      (!IsOp(node, "Slice") ||
       index_.StaticShape(node.input(0))->at(1) == index_.StaticShape(node.output(0))->at(1))) {
    Join(node.output(0), 0, node.input(0));
    return;
  }
  FreezeAround(node);
}

}  // namespace gq::quantize
