#include <cmath>

#include "common/base/text.h"
#include "common/graph/conv_scaling.h"
#include "common/graph/passes.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

// y = (x - mean) * scale + offset with scale = gamma / sqrt(variance + epsilon), all in float32 as
// Quark has it.
struct Normalization {
  std::vector<float> scale;
  std::vector<float> mean;
  std::vector<float> offset;
};

std::optional<Normalization> ReadBatchNorm(const onnx::NodeProto& node, const PassView& view) {
  if (!IsOp(node, "BatchNormalization") || node.input_size() != 5) return std::nullopt;
  if (AttributeInt(node, "training_mode", 0) != 0) return std::nullopt;
  for (int i = 1; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) return std::nullopt;
  }
  const auto gamma = view.Floats(node.input(1));
  auto beta = view.Floats(node.input(2));
  auto mean = view.Floats(node.input(3));
  const auto variance = view.Floats(node.input(4));
  if (!gamma || !beta || !mean || !variance) return std::nullopt;
  const size_t channels = gamma->size();
  if (beta->size() != channels || mean->size() != channels || variance->size() != channels) {
    return std::nullopt;
  }
  const float epsilon = AttributeFloat(node, "epsilon", 1e-5f);
  Normalization result;
  for (size_t i = 0; i < channels; ++i) {
    const float sum = (*variance)[i] + epsilon;
    result.scale.push_back((*gamma)[i] / std::sqrt(sum));
  }
  result.mean = *std::move(mean);
  result.offset = *std::move(beta);
  return result;
}

class BatchNormFusionPass : public PatternPass {
 public:
  std::string_view name() const override { return "batch-norm-fusion"; }
  std::string_view summary() const override {
    return "folds a BatchNormalization into the weights of the Conv, ConvTranspose or Gemm before "
           "it; the layer is "
           "then named after the tensor between them";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto layer = ReadAffineLayer(view.node(position), view);
    if (!layer.has_value()) return std::nullopt;
    const int reader = view.OnlyReader(position);
    if (reader < 0) return std::nullopt;
    const auto norm = ReadBatchNorm(view.node(reader), view);
    if (!norm.has_value() || view.node(reader).input(0) != view.node(position).output(0) ||
        static_cast<int64_t>(norm->scale.size()) != layer->channels) {
      return std::nullopt;
    }
    return PassMatch{{position, reader}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    onnx::NodeProto node = view.node(match.nodes[0]);
    const auto& norm_node = view.node(match.nodes[1]);
    const AffineLayer layer = *ReadAffineLayer(node, view);
    const Normalization norm = *ReadBatchNorm(norm_node, view);
    std::vector<float> bias(layer.channels);
    for (int64_t c = 0; c < layer.channels; ++c) {
      const float before = layer.bias.empty() ? 0.0f : layer.bias[c];
      const float centered = before - norm.mean[c];
      const float scaled = centered * norm.scale[c];
      bias[c] = scaled + norm.offset[c];
    }
    PassRewrite rewrite;
    const std::string& output = norm_node.output(0);
    const std::string weight_name = names->Unique(StrCat(output, "_weight"));
    const std::string bias_name = names->Unique(StrCat(output, "_bias"));
    rewrite.initializers.emplace_back(weight_name, ScaleWeights(node, layer, norm.scale));
    rewrite.initializers.emplace_back(bias_name, FloatTensor({layer.channels}, bias));
    rewrite.detail = StrCat(Describe(norm_node), " into ", Describe(node));

    node.set_name(names->UniqueNode(node.output(0)));
    node.set_input(1, weight_name);
    if (node.input_size() < 3) node.add_input("");
    node.set_input(2, bias_name);
    node.set_output(0, output);
    rewrite.successor = node.name();
    rewrite.nodes.push_back(std::move(node));
    return rewrite;
  }
};

// Gives the layer a name that is unlike any other, so that later passes see its place.
class BatchNormToConvPass : public PatternPass {
 public:
  std::string_view name() const override { return "batch-norm-to-conv"; }
  std::string_view summary() const override {
    return "turns a BatchNormalization over images into a depthwise 1x1 Conv of the same name";
  }

  std::optional<PassMatch> Find(int position, const PassView& view) const override {
    const auto& node = view.node(position);
    if (!ReadBatchNorm(node, view).has_value()) return std::nullopt;
    const auto shape = view.index().Shape(node.input(0));
    if (!shape.has_value() || shape->size() != 4) return std::nullopt;
    if (view.index().ElemType(node.input(0)) != onnx::TensorProto::FLOAT) return std::nullopt;
    return PassMatch{{position}};
  }

  absl::StatusOr<PassRewrite> Rewrite(const PassMatch& match, const PassView& view,
                                      NameScope* names) const override {
    const auto& node = view.node(match.nodes[0]);
    const Normalization norm = *ReadBatchNorm(node, view);
    const auto channels = static_cast<int64_t>(norm.scale.size());
    std::vector<float> bias(channels);
    for (int64_t c = 0; c < channels; ++c) {
      bias[c] = norm.offset[c] - norm.mean[c] * norm.scale[c];
    }
    PassRewrite rewrite;
    const std::string& output = node.output(0);
    const std::string weight_name = names->Unique(StrCat(output, "_weight"));
    const std::string bias_name = names->Unique(StrCat(output, "_bias"));
    rewrite.initializers.emplace_back(weight_name, FloatTensor({channels, 1, 1, 1}, norm.scale));
    rewrite.initializers.emplace_back(bias_name, FloatTensor({channels}, bias));
    onnx::NodeProto conv =
        MakeNode("Conv", node.name(), {node.input(0), weight_name, bias_name}, {output});
    SetAttribute("group", channels, &conv);
    SetAttribute("kernel_shape", std::vector<int64_t>{1, 1}, &conv);
    SetAttribute("strides", std::vector<int64_t>{1, 1}, &conv);
    SetAttribute("pads", std::vector<int64_t>{0, 0, 0, 0}, &conv);
    rewrite.nodes.push_back(std::move(conv));
    rewrite.detail = StrCat(Describe(node), " became a Conv");
    return rewrite;
  }
};

}  // namespace

const Pass& BatchNormFusion() {
  static const BatchNormFusionPass pass;
  return pass;
}

const Pass& BatchNormToConv() {
  static const BatchNormToConvPass pass;
  return pass;
}

}  // namespace gq::graph
