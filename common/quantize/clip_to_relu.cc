#include "common/quantize/clip_to_relu.h"

#include <limits>
#include <optional>

#include "common/quantize/names.h"

namespace gq::quantize {
namespace {

struct Bounds {
  std::optional<double> lower;
  std::optional<double> upper;
};

std::optional<double> ConstantValue(const graph::Model& model, std::string_view name) {
  if (name.empty()) return std::nullopt;
  const onnx::TensorProto* tensor = model.FindInitializer(name);
  if (tensor == nullptr) {
    for (const auto& node : model.graph().node()) {
      if (node.op_type() != "Constant" || node.output(0) != name) continue;
      const onnx::AttributeProto* value = graph::FindAttribute(node, "value");
      if (value != nullptr && value->has_t()) tensor = &value->t();
    }
  }
  if (tensor == nullptr) return std::nullopt;
  const auto data = model.Data(*tensor);
  if (!data.ok() || data->size() != 1) return std::nullopt;
  return data->At(0);
}

Bounds BoundsOf(const graph::Model& model, const onnx::NodeProto& node) {
  Bounds bounds;
  if (const auto* attribute = graph::FindAttribute(node, "min")) bounds.lower = attribute->f();
  if (const auto* attribute = graph::FindAttribute(node, "max")) bounds.upper = attribute->f();
  if (bounds.lower || bounds.upper) return bounds;
  bounds.lower = ConstantValue(model, graph::InputName(node, 1));
  bounds.upper = ConstantValue(model, graph::InputName(node, 2));
  return bounds;
}

// True when no value that calibration saw was cut at the upper bound: none of the output reaches
// it.
bool UpperBoundIsIdle(const QuantizeContext& context, const onnx::NodeProto& node,
                      const Bounds& bounds) {
  if (!bounds.upper || *bounds.upper == std::numeric_limits<double>::infinity()) return true;
  const std::string& output = context.OriginalName(node.output(0));
  const auto seen = context.extremes.find(output);
  return seen != context.extremes.end() && seen->second.max < *bounds.upper;
}

}  // namespace

absl::StatusOr<int> ConvertClipToRelu::Run(QuantizeContext& context) const {
  int converted = 0;
  for (auto& node : *context.model.mutable_graph()->mutable_node()) {
    if (node.op_type() != "Clip" || !IsSelected(node, context.settings, context.targets)) continue;
    const Bounds bounds = BoundsOf(context.model, node);
    if (!bounds.lower || *bounds.lower < 0) continue;
    if (!context.settings.quark &&
        (*bounds.lower != 0 || !UpperBoundIsIdle(context, node, bounds))) {
      continue;
    }
    node.set_op_type("Relu");
    node.clear_attribute();
    node.mutable_input()->DeleteSubrange(1, node.input_size() - 1);
    ++converted;
  }
  return converted;
}

}  // namespace gq::quantize
