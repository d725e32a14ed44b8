// Normalizations that exporters spell out in elementary operators.
#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

// Axes of a reduction, counted from the front and sorted; nullopt when they or the rank are not
// known.
std::optional<std::vector<int64_t>> ReducedAxes(const onnx::NodeProto& node, const PassView& view) {
  const auto shape = view.index().Shape(node.input(0));
  if (!shape.has_value() || AttributeInt(node, "keepdims", 1) != 1) return std::nullopt;
  auto axes = AttributeInts(node, "axes");
  if (!InputName(node, 1).empty()) {
    const auto given = view.Ints(node.input(1));
    if (!given.has_value()) return std::nullopt;
    axes = *given;
  }
  const auto rank = static_cast<int64_t>(shape->size());
  for (auto& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  return axes;
}

// The operand that is not `tensor` of a commutative node with two inputs; empty when `tensor` is
// none of them.
std::string_view OtherOperand(const onnx::NodeProto& node, std::string_view tensor) {
  if (node.input_size() != 2) return "";
  if (node.input(0) == tensor) return node.input(1);
  return node.input(1) == tensor ? std::string_view(node.input(0)) : std::string_view();
}

// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) over `axes`, as far as the Div.
struct Standardization {
  std::string input;
  std::vector<int64_t> axes;
  double epsilon = 0;
  std::vector<int> nodes;  // Div first
};

class StandardizationFinder {
 public:
  StandardizationFinder(int div, const PassView& view) : view_(view), div_(div) {}

  std::optional<Standardization> Find() {
    const auto& div = view_.node(div_);
    if (!IsOp(div, "Div")) return std::nullopt;
    result_.nodes.push_back(div_);
    const int sub = Made(div.input(0), "Sub");
    const int root = MadeForOne(div.input(1), "Sqrt");
    if (sub < 0 || root < 0) return std::nullopt;
    const int sum = MadeForOne(view_.node(root).input(0), "Add");
    if (sum < 0 || !SplitSum(sum)) return std::nullopt;
    const int variance = MadeForOne(variance_, "ReduceMean");
    if (variance < 0) return std::nullopt;
    const auto axes = ReducedAxes(view_.node(variance), view_);
    const int square = Square(view_.node(variance).input(0), sub);
    if (!axes.has_value() || square < 0) return std::nullopt;
    const auto& difference = view_.node(sub);
    const int mean = MadeForAny(difference.input(1), "ReduceMean");
    if (mean < 0 || view_.node(mean).input(0) != difference.input(0) ||
        ReducedAxes(view_.node(mean), view_) != axes) {
      return std::nullopt;
    }
    result_.input = difference.input(0);
    result_.axes = *axes;
    for (const int node : {sub, root, sum, variance, square, mean}) {
      if (std::find(result_.nodes.begin(), result_.nodes.end(), node) == result_.nodes.end()) {
        result_.nodes.push_back(node);
      }
    }
    return OnlyReadInside() ? std::optional(result_) : std::nullopt;
  }

 private:
  int Made(std::string_view tensor, std::string_view op) const {
    const int position = view_.index().ProducerPosition(tensor);
    return position >= 0 && IsOp(view_.node(position), op) ? position : -1;
  }
  int MadeForAny(std::string_view tensor, std::string_view op) const { return Made(tensor, op); }
  int MadeForOne(std::string_view tensor, std::string_view op) const {
    const int position = Made(tensor, op);
    return position >= 0 && view_.OnlyReader(position) >= 0 ? position : -1;
  }

  bool SplitSum(int sum) {
    const auto& node = view_.node(sum);
    for (const int constant : {1, 0}) {
      const auto value = view_.Scalar(node.input(constant));
      if (!value.has_value()) continue;
      result_.epsilon = *value;
      variance_ = node.input(1 - constant);
      return true;
    }
    return false;
  }

  // Position of the node that makes `tensor` as the square of what node `sub` makes, or of a second
  // Sub of the same operands; -1 when it does not.
  int Square(std::string_view tensor, int sub) {
    const int pow = MadeForOne(tensor, "Pow");
    if (pow >= 0) {
      const auto exponent = view_.Scalar(view_.node(pow).input(1));
      return exponent == 2.0 && SameDifference(view_.node(pow).input(0), sub) ? pow : -1;
    }
    const int mul = MadeForOne(tensor, "Mul");
    if (mul < 0 || view_.node(mul).input(0) != view_.node(mul).input(1)) return -1;
    return SameDifference(view_.node(mul).input(0), sub) ? mul : -1;
  }

  bool SameDifference(std::string_view tensor, int sub) {
    if (tensor == view_.node(sub).output(0)) return true;
    const int other = Made(tensor, "Sub");
    if (other < 0 || view_.node(other).input(0) != view_.node(sub).input(0) ||
        view_.node(other).input(1) != view_.node(sub).input(1)) {
      return false;
    }
    result_.nodes.push_back(other);
    return true;
  }

  // Nothing outside may read what goes, except for the result of the Div.
  bool OnlyReadInside() const {
    for (const int position : result_.nodes) {
      if (position == div_) continue;
      const auto& output = view_.node(position).output(0);
      if (view_.index().IsGraphOutput(output)) return false;
      for (const auto& use : view_.index().Uses(output)) {
        if (std::find(result_.nodes.begin(), result_.nodes.end(), use.node) ==
            result_.nodes.end()) {
          return false;
        }
      }
    }
    return true;
  }

  const PassView& view_;
  int div_;
  std::string variance_;
  Standardization result_;
};

// A Standardization followed by a Mul and an Add of constants.
struct ScaledNorm {
  Standardization norm;
  std::string scale;
  std::string bias;
  std::string output;
  int last = 0;
};

std::optional<ScaledNorm> FindScaledNorm(int position, const PassView& view) {
  if (!IsOp(view.node(position), "Div")) return std::nullopt;
  auto norm = StandardizationFinder(position, view).Find();
  if (!norm.has_value()) return std::nullopt;
  const int mul = view.OnlyReader(position);
  if (mul < 0 || !IsOp(view.node(mul), "Mul")) return std::nullopt;
  const int add = view.OnlyReader(mul);
  if (add < 0 || !IsOp(view.node(add), "Add")) return std::nullopt;
  ScaledNorm result;
  result.scale = OtherOperand(view.node(mul), view.node(position).output(0));
  result.bias = OtherOperand(view.node(add), view.node(mul).output(0));
  if (!view.index().IsInitializer(result.scale) || !view.index().IsInitializer(result.bias)) {
    return std::nullopt;
  }
  result.norm = *std::move(norm);
  result.norm.nodes.push_back(mul);
  result.norm.nodes.push_back(add);
  result.output = view.node(add).output(0);
  result.last = add;
  return result;
}

class LayerNormFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "layer-norm-fusion"; }
  std::string_view summary() const override {
    return "turns a spelled-out layer normalization into LayerNormalization, named after its last "
           "node; opset 17";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    if (view.opset() < 17) return std::nullopt;
    const auto found = FindScaledNorm(position, view);
    if (!found.has_value()) return std::nullopt;
    const auto shape = view.index().Shape(found->norm.input);
    if (!shape.has_value() || found->norm.axes.empty()) return std::nullopt;
    // The axes are the last ones, and scale and bias have exactly their shape.
    const auto rank = static_cast<int64_t>(shape->size());
    const auto count = static_cast<int64_t>(found->norm.axes.size());
    for (int64_t i = 0; i < count; ++i) {
      if (found->norm.axes[i] != rank - count + i) return std::nullopt;
    }
    const std::vector<int64_t> normalized(shape->end() - count, shape->end());
    if (view.index().Shape(found->scale) != normalized ||
        view.index().Shape(found->bias) != normalized) {
      return std::nullopt;
    }
    return PassMatch{found->norm.nodes};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const ScaledNorm found = *FindScaledNorm(match.nodes[0], view);
    PassRewrite rewrite;
    onnx::NodeProto node = MakeNode("LayerNormalization", view.node(found.last).name(),
                                    {found.norm.input, found.scale, found.bias}, {found.output});
    SetAttribute("axis", -static_cast<int64_t>(found.norm.axes.size()), &node);
    SetAttribute("epsilon", static_cast<float>(found.norm.epsilon), &node);
    rewrite.successor = node.name();
    rewrite.detail = StrCat(match.nodes.size(), " nodes up to ", Describe(view.node(found.last)),
                            " became a LayerNormalization");
    rewrite.nodes.push_back(std::move(node));
    return rewrite;
  }
};

class InstanceNormFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "instance-norm-fusion"; }
  std::string_view summary() const override {
    return "turns a spelled-out normalization over height and width into InstanceNormalization, "
           "named after its last "
           "node";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto found = FindScaledNorm(position, view);
    if (!found.has_value()) return std::nullopt;
    const auto shape = view.index().Shape(found->norm.input);
    if (!shape.has_value() || shape->size() != 4 ||
        found->norm.axes != std::vector<int64_t>{2, 3} || (*shape)[1] < 0) {
      return std::nullopt;
    }
    if (!IsPerChannel(found->scale, (*shape)[1], view) ||
        !IsPerChannel(found->bias, (*shape)[1], view)) {
      return std::nullopt;
    }
    return PassMatch{found->norm.nodes};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const ScaledNorm found = *FindScaledNorm(match.nodes[0], view);
    PassRewrite rewrite;
    const auto flat = [&](const std::string& tensor) {
      const TensorView value = *view.Constant(tensor);
      const std::string name = names->Unique(StrCat(tensor, "_flat"));
      rewrite.initializers.emplace_back(
          name, TensorView(value.dtype(), {value.size()}, value.bytes(), value.owner()));
      return name;
    };
    const std::string scale = flat(found.scale);
    const std::string bias = flat(found.bias);
    onnx::NodeProto node = MakeNode("InstanceNormalization", view.node(found.last).name(),
                                    {found.norm.input, scale, bias}, {found.output});
    SetAttribute("epsilon", static_cast<float>(found.norm.epsilon), &node);
    rewrite.successor = node.name();
    rewrite.detail = StrCat(match.nodes.size(), " nodes up to ", Describe(view.node(found.last)),
                            " became an InstanceNormalization");
    rewrite.nodes.push_back(std::move(node));
    return rewrite;
  }

 private:
  static bool IsPerChannel(const std::string& tensor, int64_t channels, const PassView& view) {
    const auto shape = view.index().Shape(tensor);
    if (!shape.has_value()) return false;
    return *shape == std::vector<int64_t>{channels, 1, 1} ||
           *shape == std::vector<int64_t>{1, channels, 1, 1};
  }
};

class L2NormFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "l2-norm-fusion"; }
  std::string_view summary() const override {
    return "turns the division of a tensor by its ReduceL2 along one axis into LpNormalization, "
           "named after the Div";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& div = view.node(position);
    if (!IsOp(div, "Div")) return std::nullopt;
    const int reduce = view.index().ProducerPosition(div.input(1));
    if (reduce < 0 || !IsOp(view.node(reduce), "ReduceL2") || view.OnlyReader(reduce) != position ||
        view.node(reduce).input(0) != div.input(0)) {
      return std::nullopt;
    }
    const auto axes = ReducedAxes(view.node(reduce), view);
    if (!axes.has_value() || axes->size() != 1) return std::nullopt;
    return PassMatch{{position, reduce}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const auto& div = view.node(match.nodes[0]);
    const auto axes = *ReducedAxes(view.node(match.nodes[1]), view);
    PassRewrite rewrite;
    onnx::NodeProto node = MakeNode("LpNormalization", div.name(), {div.input(0)}, {div.output(0)});
    SetAttribute("axis", axes[0], &node);
    SetAttribute("p", int64_t{2}, &node);
    rewrite.successor = node.name();
    rewrite.detail = StrCat(Describe(div), " became an LpNormalization");
    rewrite.nodes.push_back(std::move(node));
    return rewrite;
  }
};

}  // namespace

const Pass& LayerNormFusion() {
  static const LayerNormFusionPass pass;
  return pass;
}

const Pass& InstanceNormFusion() {
  static const InstanceNormFusionPass pass;
  return pass;
}

const Pass& L2NormFusion() {
  static const L2NormFusionPass pass;
  return pass;
}

}  // namespace gq::graph
