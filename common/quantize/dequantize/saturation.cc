// Ranges that are operators: quantizers drop a Relu whose work the range does.
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using onnx::NodeProto;

using NameSet = std::set<std::string, std::less<>>;
constexpr int kDeepest = 64;
constexpr float kReluSix = 6;

// What is known of the values of a tensor without running anything.
struct Bounds {
  bool from_zero = false;
  bool up_to_six = false;
};

// Of a constant; nothing is known of an input.
Bounds BoundsOfConstant(const std::string& tensor, const Stripper& stripper) {
  std::optional<graph::TensorView> view = stripper.NewConstant(tensor);
  if (!view) {
    const onnx::TensorProto* constant = stripper.Constant(tensor);
    if (constant == nullptr) return {};
    if (auto data = stripper.source().Data(*constant); data.ok()) view = *std::move(data);
  }
  if (!view) return {};
  const auto values = view->ToFloats();
  if (!values.ok()) return {};
  Bounds bounds = {true, true};
  for (const float value : *values) {
    bounds.from_zero = bounds.from_zero && value >= 0;
    bounds.up_to_six = bounds.up_to_six && value <= kReluSix;
  }
  return bounds;
}

// x * x, or x to the power of an even number.
bool IsEvenPower(const NodeProto& node, const Stripper& stripper) {
  if (node.op_type() == "Mul") return InputOf(node, 0) == InputOf(node, 1);
  if (node.op_type() != "Pow") return false;
  const onnx::TensorProto* constant = stripper.Constant(InputOf(node, 1));
  if (constant == nullptr) return false;
  const auto view = stripper.source().Data(*constant);
  return view.ok() && view->size() == 1 && std::fmod(view->At(0), 2) == 0;
}

Bounds BoundsOf(const std::string& tensor, const Stripper& stripper, int depth = 0) {
  static const NameSet positive = {"Relu",     "Exp",      "Abs",      "Sqrt",
                                   "ReduceL1", "ReduceL2", "Softplus", "ReduceSumSquare"};
  static const NameSet unit = {"Sigmoid", "HardSigmoid", "Softmax"};
  static const NameSet first = {"MaxPool",       "AveragePool", "GlobalAveragePool",
                                "GlobalMaxPool", "Reshape",     "Flatten",
                                "Transpose",     "Squeeze",     "Unsqueeze",
                                "Identity",      "Slice",       "Split",
                                "Expand",        "Tile",        "Gather",
                                "DepthToSpace",  "Resize",      "Upsample",
                                "SpaceToDepth",  "ReduceMax",   "ReduceMin",
                                "ReduceMean",    "Pad"};
  static const NameSet all = {"Concat", "Max", "Min", "Where"};
  static const NameSet growing = {"Add", "Mul", "Sum", "Div"};
  const NodeProto* node = stripper.Made(tensor);
  if (depth > kDeepest) return {};
  if (node == nullptr) return BoundsOfConstant(tensor, stripper);
  if (!node->domain().empty() && node->domain() != "ai.onnx") return {false, false};
  const std::string& op = node->op_type();
  if (unit.contains(op)) return {true, true};
  if (positive.contains(op) || IsEvenPower(*node, stripper)) return {true, false};
  if (stripper.IsReluSix(tensor)) return {true, true};
  if (op == "Clip") {
    Bounds bounds;
    const auto limit = [&](int input, const char* attribute, float value) {
      if (graph::FindAttribute(*node, attribute) != nullptr) {
        return graph::AttributeFloat(*node, attribute, value);
      }
      const auto* constant = stripper.Constant(graph::InputName(*node, input));
      const auto view = constant == nullptr
                            ? absl::StatusOr<graph::TensorView>(absl::NotFoundError(""))
                            : stripper.source().Data(*constant);
      return view.ok() && view->size() == 1 ? static_cast<float>(view->At(0)) : value;
    };
    bounds.from_zero = limit(1, "min", -1) >= 0;
    bounds.up_to_six = limit(2, "max", 1e9f) <= kReluSix * 1.0001f;
    return bounds;
  }
  if (first.contains(op)) return BoundsOf(InputOf(*node, 0), stripper, depth + 1);
  if (!all.contains(op) && !growing.contains(op)) return {};
  Bounds bounds = {true, !growing.contains(op)};
  for (int i = op == "Where" ? 1 : 0; i < node->input_size(); ++i) {
    const Bounds input = BoundsOf(node->input(i), stripper, depth + 1);
    bounds.from_zero = bounds.from_zero && input.from_zero;
    bounds.up_to_six = bounds.up_to_six && input.up_to_six;
  }
  return bounds;
}

}  // namespace

Clamp ClampOf(const std::string& real, const Grid& grid, const Stripper& stripper) {
  // Nothing was folded into the ranges of inputs and constants.
  if (stripper.Made(real) == nullptr) return Clamp::kNone;
  NodeProto nobody;
  const auto values = stripper.Values(grid, nobody);
  const IntegerLimits limits = LimitsOf(stripper.TypeOf(grid));
  if (!values.ok() || values->scale.size() != 1 || limits.high == 0) return Clamp::kNone;
  const double zero = values->zero_point.empty() ? 0 : values->zero_point[0];
  if (zero != limits.low) return Clamp::kNone;
  const double high = (limits.high - zero) * values->scale[0];
  const Bounds known = BoundsOf(real, stripper);
  if (std::abs(high - kReluSix) < 1e-4 * kReluSix && !known.up_to_six) return Clamp::kReluSix;
  return known.from_zero ? Clamp::kNone : Clamp::kRelu;
}

void EmitClamp(Clamp clamp, const std::string& input, const std::string& output,
               Stripper& stripper) {
  ++stripper.report().clamps;
  const std::string name = stripper.UniqueNode(output);
  if (clamp == Clamp::kRelu) {
    stripper.Emit(graph::MakeNode("Relu", name, {input}, {output}));
    return;
  }
  stripper.MarkReluSix(output);
  if (stripper.opset() >= 11) {
    const std::string low = stripper.AddScalar("relu6_low", 0);
    const std::string high = stripper.AddScalar("relu6_high", kReluSix);
    stripper.Emit(graph::MakeNode("Clip", name, {input, low, high}, {output}));
    return;
  }
  NodeProto node = graph::MakeNode("Clip", name, {input}, {output});
  graph::SetAttribute("min", 0.0f, &node);
  graph::SetAttribute("max", kReluSix, &node);
  stripper.Emit(std::move(node));
}

std::string Saturated(const std::string& real, const Grid& grid, Stripper& stripper) {
  const Clamp clamp = ClampOf(real, grid, stripper);
  if (clamp == Clamp::kNone) return real;
  const std::string_view suffix = clamp == Clamp::kRelu ? "_relu" : "_relu6";
  std::string& clamped = stripper.Clamped(StrCat(real, "|", suffix));
  if (!clamped.empty()) return clamped;
  clamped = stripper.Unique(StrCat(real, suffix));
  EmitClamp(clamp, real, clamped, stripper);
  return clamped;
}

}  // namespace gq::quantize
