#include <algorithm>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

class ReduceMeanToPoolPass : public PatternPass {
 public:
  std::string_view name() const override { return "reduce-mean-to-pool"; }
  std::string_view summary() const override {
    return "turns a ReduceMean over height and width of an image that keeps the dimensions into a "
           "GlobalAveragePool of the same name";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& node = view.node(position);
    if (!IsOp(node, "ReduceMean") || AttributeInt(node, "keepdims", 1) != 1) return std::nullopt;
    const auto shape = view.index().Shape(node.input(0));
    if (!shape.has_value() || shape->size() != 4) return std::nullopt;
    if (view.index().ElemType(node.input(0)) != onnx::TensorProto::FLOAT) return std::nullopt;
    auto axes = AttributeInts(node, "axes");
    if (!InputName(node, 1).empty()) {
      const auto given = view.Ints(node.input(1));
      if (!given.has_value()) return std::nullopt;
      axes = *given;
    }
    for (auto& axis : axes) axis = axis < 0 ? axis + 4 : axis;
    std::sort(axes.begin(), axes.end());
    if (axes != std::vector<int64_t>{2, 3}) return std::nullopt;
    return PassMatch{{position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope*) const override {
    const auto& node = view.node(match.nodes[0]);
    PassRewrite rewrite;
    rewrite.nodes.push_back(
        MakeNode("GlobalAveragePool", node.name(), {node.input(0)}, {node.output(0)}));
    rewrite.detail = StrCat(Describe(node), " became a GlobalAveragePool");
    return rewrite;
  }
};

class SplitToSlicePass : public PatternPass {
 public:
  std::string_view name() const override { return "split-to-slice"; }
  std::string_view summary() const override {
    return "turns a Split into one Slice for each output, named after the output and its number";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& node = view.node(position);
    if (!IsOp(node, "Split") || !Sizes(node, view).has_value()) return std::nullopt;
    if (!IsFloatType(view.index().ElemType(node.input(0)))) return std::nullopt;
    return PassMatch{{position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const auto& node = view.node(match.nodes[0]);
    const std::vector<int64_t> sizes = *Sizes(node, view);
    const int64_t axis = AttributeInt(node, "axis", 0);
    PassRewrite rewrite;
    int64_t start = 0;
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string& output = node.output(i);
      const auto constant = [&](std::string_view what, int64_t value) {
        const std::string name = names->Unique(StrCat(output, "_", what, "_", i));
        const std::vector<int64_t> values{value};
        rewrite.initializers.emplace_back(name, TensorView::Of<int64_t>({1}, values));
        return name;
      };
      if (!output.empty()) {
        const std::string starts = constant("starts", start);
        const std::string ends = constant("ends", start + sizes[i]);
        const std::string axes = constant("axes", axis);
        const std::string steps = constant("steps", 1);
        rewrite.nodes.push_back(MakeNode("Slice", names->UniqueNode(StrCat(output, "_", i)),
                                         {node.input(0), starts, ends, axes, steps}, {output}));
      }
      start += sizes[i];
    }
    if (!rewrite.nodes.empty()) rewrite.successor = rewrite.nodes[0].name();
    rewrite.detail = StrCat(Describe(node), " became ", rewrite.nodes.size(), " Slices");
    return rewrite;
  }

 private:
  // Sizes of the parts along the axis.
  static std::optional<std::vector<int64_t>> Sizes(const onnx::NodeProto& node,
                                                   const PassView& view) {
    const auto shape = view.index().StaticShape(node.input(0));
    if (!shape.has_value()) return std::nullopt;
    const auto rank = static_cast<int64_t>(shape->size());
    int64_t axis = AttributeInt(node, "axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    const int64_t size = (*shape)[axis];
    const int64_t parts = node.output_size();
    if (parts == 0) return std::nullopt;
    if (!InputName(node, 1).empty()) {
      auto given = view.Ints(node.input(1));
      if (!given.has_value() || static_cast<int64_t>(given->size()) != parts) return std::nullopt;
      return given;
    }
    // Equal parts; the last one is what is left.
    const int64_t part = (size + parts - 1) / parts;
    std::vector<int64_t> sizes(parts, part);
    sizes.back() = size - part * (parts - 1);
    if (sizes.back() < 0) return std::nullopt;
    return sizes;
  }
};

class HardSwishExpansionPass : public PatternPass {
 public:
  std::string_view name() const override { return "hard-swish-expansion"; }
  std::string_view summary() const override {
    return "turns a HardSwish into a HardSigmoid with alpha 1/6 and beta 1/2 and a Mul";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    if (!IsOp(view.node(position), "HardSwish")) return std::nullopt;
    return PassMatch{{position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const auto& node = view.node(match.nodes[0]);
    const std::string inner = names->Unique("_inlfunc_HardSwish_HS_X");
    onnx::NodeProto sigmoid =
        MakeNode("HardSigmoid", names->UniqueNode(StrCat(node.name(), "_HardSigmoid")),
                 {node.input(0)}, {inner});
    SetAttribute("alpha", 1.0f / 6.0f, &sigmoid);
    SetAttribute("beta", 0.5f, &sigmoid);
    PassRewrite rewrite;
    rewrite.nodes.push_back(std::move(sigmoid));
    rewrite.nodes.push_back(MakeNode("Mul", node.name(), {node.input(0), inner}, {node.output(0)}));
    rewrite.detail = StrCat(Describe(node), " became HardSigmoid and Mul");
    return rewrite;
  }
};

}  // namespace

const Pass& ReduceMeanToPool() {
  static const ReduceMeanToPoolPass pass;
  return pass;
}

const Pass& SplitToSlice() {
  static const SplitToSlicePass pass;
  return pass;
}

const Pass& HardSwishExpansion() {
  static const HardSwishExpansionPass pass;
  return pass;
}

}  // namespace gq::graph
