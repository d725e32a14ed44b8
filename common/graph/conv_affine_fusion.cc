#include "common/base/text.h"
#include "common/graph/conv_scaling.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

// A layer whose only reader combines its result with a constant per channel.
struct ScaledLayer {
  AffineLayer layer;
  std::vector<float> constant;
};

std::optional<ScaledLayer> ReadScaledLayer(int position, int reader, std::string_view op,
                                           const PassView& view) {
  const auto& node = view.node(position);
  if (!IsOp(node, "Conv") && !IsOp(node, "ConvTranspose")) return std::nullopt;
  if (reader < 0 || !IsOp(view.node(reader), op)) return std::nullopt;
  const auto& operation = view.node(reader);
  const int other = operation.input(0) == node.output(0) ? 1 : 0;
  const auto constant = view.Constant(operation.input(other));
  const auto shape = view.index().Shape(node.output(0));
  if (!constant.has_value() || !shape.has_value()) return std::nullopt;
  auto layer = ReadAffineLayer(node, view);
  if (!layer.has_value()) return std::nullopt;
  auto values = PerChannel(*constant, static_cast<int>(shape->size()), layer->channels);
  if (!values.has_value()) return std::nullopt;
  return ScaledLayer{*std::move(layer), *std::move(values)};
}

class ConvOperationPass : public PatternPass {
 public:
  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const int reader = view.OnlyReader(position);
    if (!ReadScaledLayer(position, reader, op(), view).has_value()) return std::nullopt;
    return PassMatch{{position, reader}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    onnx::NodeProto node = view.node(match.nodes[0]);
    const auto& operation = view.node(match.nodes[1]);
    const ScaledLayer scaled = *ReadScaledLayer(match.nodes[0], match.nodes[1], op(), view);
    PassRewrite rewrite;
    rewrite.detail = StrCat(Describe(operation), " into ", Describe(node));
    Fold(scaled, names, &node, &rewrite);
    node.set_output(0, operation.output(0));
    rewrite.successor = node.name();
    rewrite.nodes.push_back(std::move(node));
    return rewrite;
  }

 protected:
  virtual std::string_view op() const = 0;
  virtual void Fold(const ScaledLayer& scaled, NameScope* names, onnx::NodeProto* node,
                    PassRewrite* rewrite) const = 0;

  static void SetBias(const std::vector<float>& bias, NameScope* names, onnx::NodeProto* node,
                      PassRewrite* rewrite) {
    const std::string base = InputName(*node, 2).empty() ? StrCat(node->output(0), "_bias")
                                                         : StrCat(node->input(2), "_folded");
    const std::string name = names->Unique(base);
    rewrite->initializers.emplace_back(name,
                                       FloatTensor({static_cast<int64_t>(bias.size())}, bias));
    while (node->input_size() < 3) node->add_input("");
    node->set_input(2, name);
  }
};

class ConvMulFusionPass : public ConvOperationPass {
 public:
  std::string_view name() const override { return "conv-mul-fusion"; }
  std::string_view summary() const override {
    return "folds a Mul by a constant per channel into the weights and bias of the Conv or "
           "ConvTranspose before it, "
           "which keeps its name";
  }

 protected:
  std::string_view op() const override { return "Mul"; }
  void Fold(const ScaledLayer& scaled, NameScope* names, onnx::NodeProto* node,
            PassRewrite* rewrite) const override {
    const std::string weight = names->Unique(StrCat(node->input(1), "_folded"));
    rewrite->initializers.emplace_back(weight, ScaleWeights(*node, scaled.layer, scaled.constant));
    node->set_input(1, weight);
    if (scaled.layer.bias.empty()) return;
    std::vector<float> bias = scaled.layer.bias;
    for (size_t c = 0; c < bias.size(); ++c) bias[c] *= scaled.constant[c];
    SetBias(bias, names, node, rewrite);
  }
};

class ConvAddFusionPass : public ConvOperationPass {
 public:
  std::string_view name() const override { return "conv-add-fusion"; }
  std::string_view summary() const override {
    return "folds an Add of a constant per channel into the bias of the Conv or ConvTranspose "
           "before it, which keeps "
           "its name";
  }

 protected:
  std::string_view op() const override { return "Add"; }
  void Fold(const ScaledLayer& scaled, NameScope* names, onnx::NodeProto* node,
            PassRewrite* rewrite) const override {
    std::vector<float> bias = scaled.constant;
    for (size_t c = 0; c < scaled.layer.bias.size(); ++c) bias[c] += scaled.layer.bias[c];
    SetBias(bias, names, node, rewrite);
  }
};

}  // namespace

const Pass& ConvMulFusion() {
  static const ConvMulFusionPass pass;
  return pass;
}

const Pass& ConvAddFusion() {
  static const ConvAddFusionPass pass;
  return pass;
}

}  // namespace gq::graph
