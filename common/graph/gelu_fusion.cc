#include <cmath>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

bool Near(std::optional<double> value, double wanted) {
  return value.has_value() && std::abs(*value - wanted) < 1e-4;
}

// The factors of 0.5 * x * (1 + erf(x / sqrt(2))) may be multiplied in any order; exporters use
// these two: (x * (1 + erf)) * 0.5 and (x * 0.5) * (1 + erf).
class GeluFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "gelu-fusion"; }
  std::string_view summary() const override {
    return "turns a Gelu spelled out with Erf into Gelu, named after its last node; opset 20";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    if (view.opset() < 20) return std::nullopt;
    const auto found = FindGelu(position, view);
    if (!found.has_value()) return std::nullopt;
    return PassMatch{found->nodes};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const auto found = *FindGelu(match.nodes[0], view);
    const auto& last = view.node(found.last);
    PassRewrite rewrite;
    rewrite.nodes.push_back(MakeNode("Gelu", last.name(), {found.input}, {last.output(0)}));
    rewrite.successor = last.name();
    rewrite.detail = StrCat(match.nodes.size(), " nodes up to ", Describe(last), " became a Gelu");
    return rewrite;
  }

 private:
  struct Found {
    std::string input;
    int last = 0;
    std::vector<int> nodes;
  };

  // The operand of a Mul that is not `tensor`.
  static std::string Other(const onnx::NodeProto& node, const std::string& tensor) {
    return node.input(0) == tensor ? node.input(1) : node.input(0);
  }

  // From the Erf at `position` on.
  static std::optional<Found> FindGelu(int position, const PassView& view) {
    const auto& erf = view.node(position);
    if (!IsOp(erf, "Erf")) return std::nullopt;
    const int scaled = view.index().ProducerPosition(erf.input(0));
    if (scaled < 0 || view.OnlyReader(scaled) != position) return std::nullopt;
    const auto& scale = view.node(scaled);
    const bool divided = IsOp(scale, "Div") && Near(view.Scalar(scale.input(1)), std::sqrt(2.0));
    const bool multiplied = IsOp(scale, "Mul") && Near(view.Scalar(scale.input(1)), std::sqrt(0.5));
    if (!divided && !multiplied) return std::nullopt;
    const std::string x = scale.input(0);
    const int add = view.OnlyReader(position);
    if (add < 0 || !IsOp(view.node(add), "Add") ||
        !Near(view.Scalar(Other(view.node(add), erf.output(0))), 1.0)) {
      return std::nullopt;
    }
    const int mul = view.OnlyReader(add);
    if (mul < 0 || !IsOp(view.node(mul), "Mul")) return std::nullopt;
    const std::string factor = Other(view.node(mul), view.node(add).output(0));
    if (factor == x) {
      const int half = view.OnlyReader(mul);
      if (half < 0 || !IsOp(view.node(half), "Mul") ||
          !Near(view.Scalar(Other(view.node(half), view.node(mul).output(0))), 0.5)) {
        return std::nullopt;
      }
      return Found{x, half, {position, scaled, add, mul, half}};
    }
    const int half = view.index().ProducerPosition(factor);
    if (half < 0 || !IsOp(view.node(half), "Mul") || view.OnlyReader(half) != mul) {
      return std::nullopt;
    }
    const auto& halved = view.node(half);
    const bool is_half = (halved.input(0) == x && Near(view.Scalar(halved.input(1)), 0.5)) ||
                         (halved.input(1) == x && Near(view.Scalar(halved.input(0)), 0.5));
    if (!is_half) return std::nullopt;
    return Found{x, mul, {position, scaled, add, mul, half}};
  }
};

}  // namespace

const Pass& GeluFusion() {
  static const GeluFusionPass pass;
  return pass;
}

}  // namespace gq::graph
