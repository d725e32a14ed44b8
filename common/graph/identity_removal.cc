#include <algorithm>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

bool IsIota(const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool AllEqual(const std::optional<std::vector<int64_t>>& values, int64_t value) {
  return values.has_value() && std::all_of(values->begin(), values->end(),
                                           [&](int64_t element) { return element == value; });
}

bool SameShape(const onnx::NodeProto& node, int input, const PassView& view) {
  const auto in = view.index().StaticShape(InputName(node, input));
  const auto out = view.index().StaticShape(node.output(0));
  return in.has_value() && out.has_value() && *in == *out;
}

class IdentityRemovalPass : public PatternPass {
 public:
  std::string_view name() const override { return "identity-removal"; }
  std::string_view summary() const override {
    return "takes out nodes that pass their input on: Identity, Dropout, Cast to the same type, "
           "shape operators that "
           "change no shape, Pad by nothing, arithmetic with 0 or 1";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& node = view.node(position);
    const int input = PassedInput(node, view);
    if (input < 0) return std::nullopt;
    for (int i = 1; i < node.output_size(); ++i) {
      if (!view.index().Uses(node.output(i)).empty() ||
          view.index().IsGraphOutput(node.output(i))) {
        return std::nullopt;
      }
    }
    if (!view.CanReplace(node.output(0), InputName(node, input))) return std::nullopt;
    return PassMatch{{position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const auto& node = view.node(match.nodes[0]);
    PassRewrite rewrite;
    rewrite.replaced.emplace_back(node.output(0),
                                  std::string(InputName(node, PassedInput(node, view))));
    rewrite.detail = StrCat("removed ", Describe(node));
    return rewrite;
  }

 private:
  // The input that the node passes on, -1 when it does more than that.
  static int PassedInput(const onnx::NodeProto& node, const PassView& view) {
    if (!node.domain().empty() && node.domain() != "ai.onnx") return -1;
    if (node.input_size() == 0 || node.output_size() == 0 || node.input(0).empty()) return -1;
    const std::string& op = node.op_type();
    if (op == "Identity") return 0;
    if (op == "Dropout") return IsInference(node, view) ? 0 : -1;
    if (op == "Cast") {
      const int32_t type = view.index().ElemType(node.input(0));
      return type != 0 && type == AttributeInt(node, "to", 0) ? 0 : -1;
    }
    if (op == "Transpose") {
      const auto perm = AttributeInts(node, "perm");
      return !perm.empty() && IsIota(perm) ? 0 : -1;
    }
    if (op == "Concat" || op == "Sum" || op == "Max" || op == "Min" || op == "Mean") {
      return node.input_size() == 1 ? 0 : -1;
    }
    if (op == "Reshape" || op == "Flatten" || op == "Expand" || op == "Squeeze" ||
        op == "Unsqueeze") {
      return SameShape(node, 0, view) ? 0 : -1;
    }
    if (op == "Pad") return AllEqual(view.Ints(InputName(node, 1)), 0) ? 0 : -1;
    if (op == "Slice") {
      const bool forward = InputName(node, 4).empty() || AllEqual(view.Ints(node.input(4)), 1);
      return forward && SameShape(node, 0, view) ? 0 : -1;
    }
    return NeutralOperand(node, view);
  }

  static bool IsInference(const onnx::NodeProto& node, const PassView& view) {
    const auto training = InputName(node, 2);
    return training.empty() || view.Scalar(training) == 0.0;
  }

  // x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1, of unchanged shape.
  static int NeutralOperand(const onnx::NodeProto& node, const PassView& view) {
    const std::string& op = node.op_type();
    const bool sum = op == "Add" || op == "Sub";
    if ((!sum && op != "Mul" && op != "Div") || node.input_size() != 2) return -1;
    for (const int constant : {1, 0}) {
      if (constant == 0 && (op == "Sub" || op == "Div")) break;
      const auto value = view.Scalar(node.input(constant));
      if (!value.has_value() || *value != (sum ? 0.0 : 1.0)) continue;
      if (view.index().IsInitializer(node.input(1 - constant))) return -1;
      return SameShape(node, 1 - constant, view) ? 1 - constant : -1;
    }
    return -1;
  }
};

}  // namespace

const Pass& IdentityRemoval() {
  static const IdentityRemovalPass pass;
  return pass;
}

}  // namespace gq::graph
