#include "common/explore/rounded_form.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/edits.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::explore {
namespace {

using calibrate::Rounding;
using graph::GraphIndex;
using onnx::TensorProto;

// Range of the integers of a zero point's type; nothing for other types.
std::optional<std::pair<float, float>> IntegerRange(int32_t dtype) {
  switch (dtype) {
    case TensorProto::INT8:
      return std::pair(-128.0f, 127.0f);
    case TensorProto::UINT8:
      return std::pair(0.0f, 255.0f);
    case TensorProto::INT16:
      return std::pair(-32768.0f, 32767.0f);
    case TensorProto::UINT16:
      return std::pair(0.0f, 65535.0f);
    default:
      return std::nullopt;
  }
}

bool SameParameters(const onnx::NodeProto& quantize, const onnx::NodeProto& dequantize) {
  return quantize.input_size() == 3 && dequantize.input_size() == 3 &&
         quantize.input(1) == dequantize.input(1) && quantize.input(2) == dequantize.input(2);
}

// A Cast from float to a reduced type.
std::optional<Rounding> RoundingOfCast(const onnx::NodeProto& cast, const GraphIndex& index) {
  if (!graph::IsOp(cast, "Cast") || index.ElemType(cast.input(0)) != TensorProto::FLOAT) {
    return std::nullopt;
  }
  const int64_t to = graph::AttributeInt(cast, "to", 0);
  if (to == TensorProto::BFLOAT16) return Rounding{.kind = Rounding::Kind::kBfloat16};
  if (to == TensorProto::FLOAT16) return Rounding{.kind = Rounding::Kind::kFloat16};
  return std::nullopt;
}

// The tensor that the pair ending in `node` rounds, and how.
std::optional<std::pair<std::string, Rounding>> PairBefore(const onnx::NodeProto& node,
                                                           const graph::Model& model,
                                                           const GraphIndex& index) {
  if (node.input_size() == 0 || node.output_size() != 1) return std::nullopt;
  const onnx::NodeProto* first = index.Producer(node.input(0));
  if (first == nullptr) return std::nullopt;
  std::optional<Rounding> rounding;
  if (quantize::IsDequantizeNode(node) && quantize::IsQuantizeNode(*first)) {
    if (SameParameters(*first, node)) rounding = RoundingOf(*first, model, index);
  } else if (graph::IsOp(node, "Cast") &&
             graph::AttributeInt(node, "to", 0) == TensorProto::FLOAT) {
    rounding = RoundingOfCast(*first, index);
  }
  if (!rounding || index.ElemType(first->input(0)) != TensorProto::FLOAT) return std::nullopt;
  return std::pair(first->input(0), *rounding);
}

}  // namespace

std::optional<Rounding> RoundingOf(const onnx::NodeProto& quantize, const graph::Model& model,
                                   const GraphIndex& index) {
  if (quantize.input_size() < 3) return std::nullopt;
  const auto* scale = index.Initializer(quantize.input(1));
  const auto* zero_point = index.Initializer(quantize.input(2));
  if (scale == nullptr || zero_point == nullptr) return std::nullopt;
  const auto range = IntegerRange(zero_point->data_type());
  const auto scales = model.Data(*scale);
  const auto zero_points = model.Data(*zero_point);
  if (!range || !scales.ok() || !zero_points.ok() || scales->size() != 1 ||
      zero_points->size() != 1) {
    return std::nullopt;
  }
  Rounding rounding;
  rounding.kind = Rounding::Kind::kInteger;
  rounding.scale = static_cast<float>(scales->At(0));
  rounding.zero_point = static_cast<float>(zero_points->At(0));
  std::tie(rounding.qmin, rounding.qmax) = *range;
  return rounding;
}

absl::StatusOr<RoundedForm> MakeRoundedForm(const graph::Model& model) {
  RoundedForm form{.model = model, .roundings = {}};
  const GraphIndex index(model.graph());
  onnx::GraphProto* graph = form.model.mutable_graph();
  std::vector<std::pair<std::string, std::string>> made;  // output, source
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    const auto pair = PairBefore(node, model, index);
    if (!pair) continue;
    const std::string output = node.output(0);
    node = graph::MakeNode("Identity", node.name(), {pair->first}, {output});
    form.roundings[output] = pair->second;
    made.emplace_back(output, pair->first);
  }
  // Types must be known for what is rounded.
  for (const auto& [output, source] : made) {
    if (index.Type(output) != nullptr && index.Shape(output)) continue;
    const auto shape = index.StaticShape(source);
    if (!shape) {
      return base::MakeError(base::Reason::kInternal, "a rounded tensor has no static shape");
    }
    graph::SetValueInfo(output, TensorProto::FLOAT, *shape, graph);
  }
  graph::RemoveDeadNodes(graph);
  graph::RemoveUnusedInitializers(graph);
  return form;
}

}  // namespace gq::explore
