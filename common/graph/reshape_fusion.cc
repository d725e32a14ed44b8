#include <algorithm>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

class ReshapeFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "reshape-fusion"; }
  std::string_view summary() const override {
    return "joins a Reshape with the Reshape that alone reads it; the joined one is named after "
           "the tensor between";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    if (!IsOp(view.node(position), "Reshape")) return std::nullopt;
    const int reader = view.OnlyReader(position);
    if (reader < 0 || !IsOp(view.node(reader), "Reshape") ||
        view.node(reader).input(0) != view.node(position).output(0)) {
      return std::nullopt;
    }
    const auto shape = view.Ints(view.node(reader).input(1));
    // A zero copies a dimension of the tensor between.
    if (!shape.has_value() || std::find(shape->begin(), shape->end(), 0) != shape->end()) {
      return std::nullopt;
    }
    return PassMatch{{reader, position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    onnx::NodeProto node = view.node(match.nodes[0]);
    const auto& first = view.node(match.nodes[1]);
    PassRewrite rewrite;
    rewrite.detail = StrCat(Describe(first), " joined with ", Describe(node));
    node.set_input(0, first.input(0));
    node.set_name(names->UniqueNode(first.output(0)));
    rewrite.successor = node.name();
    rewrite.nodes.push_back(std::move(node));
    return rewrite;
  }
};

// Names as ONNX Runtime's basic optimization gives them.
class ReshapeChainFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "reshape-chain-fusion"; }
  std::string_view summary() const override {
    return "joins a Reshape with the Reshapes, Squeezes and Unsqueezes that follow it one by one, "
           "<name>_new_reshape";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    if (!IsOp(view.node(position), "Reshape")) return std::nullopt;
    PassMatch match{{position}};
    for (int next = view.OnlyReader(position); next >= 0; next = view.OnlyReader(next)) {
      const auto& node = view.node(next);
      const bool joins = IsOp(node, "Reshape") || IsOp(node, "Squeeze") || IsOp(node, "Unsqueeze");
      if (!joins || node.input(0) != view.node(match.nodes.back()).output(0) ||
          !view.index().StaticShape(node.output(0)).has_value()) {
        break;
      }
      match.nodes.push_back(next);
    }
    if (match.nodes.size() < 2) return std::nullopt;
    // A zero in a shape means a dimension of the input.
    const auto shape = *view.index().StaticShape(view.node(match.nodes.back()).output(0));
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::nullopt;
    return match;
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const auto& first = view.node(match.nodes.front());
    const auto& last = view.node(match.nodes.back());
    const auto shape = *view.index().StaticShape(last.output(0));
    const std::string constant = names->Unique(StrCat(first.name(), "_new_shape"));
    PassRewrite rewrite;
    rewrite.initializers.emplace_back(
        constant, TensorView::Of<int64_t>({static_cast<int64_t>(shape.size())}, shape));
    onnx::NodeProto node =
        MakeNode("Reshape", names->UniqueNode(StrCat(first.name(), "_new_reshape")),
                 {first.input(0), constant}, {last.output(0)});
    SetAttribute("allowzero", int64_t{0}, &node);
    rewrite.successor = node.name();
    rewrite.nodes.push_back(std::move(node));
    rewrite.detail =
        StrCat(match.nodes.size(), " shape operators after ", Describe(first), " became one");
    return rewrite;
  }
};

}  // namespace

const Pass& ReshapeChainFusion() {
  static const ReshapeChainFusionPass pass;
  return pass;
}

const Pass& ReshapeFusion() {
  static const ReshapeFusionPass pass;
  return pass;
}

}  // namespace gq::graph
