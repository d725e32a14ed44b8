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

}  // namespace

const Pass& ReshapeFusion() {
  static const ReshapeFusionPass pass;
  return pass;
}

}  // namespace gq::graph
