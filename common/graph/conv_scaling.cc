#include "common/graph/conv_scaling.h"

#include <utility>

namespace gq::graph {
namespace {

// Output channels of a weight tensor; the index of the output channel of element i is Channel(i).
struct ChannelLayout {
  int64_t channels = 0;
  int64_t inner = 1;           // elements that follow each other with one channel
  int64_t modulus = 1;         // channels that repeat within a group
  int64_t group_elements = 0;  // elements of one group (ConvTranspose); 0: one group

  int64_t Channel(int64_t element) const {
    const int64_t group = group_elements == 0 ? 0 : element / group_elements;
    return group * modulus + element / inner % modulus;
  }
};

std::optional<ChannelLayout> LayoutOf(const onnx::NodeProto& node,
                                      const std::vector<int64_t>& dims) {
  ChannelLayout layout;
  if (IsOp(node, "Conv") && dims.size() >= 3) {
    for (size_t i = 1; i < dims.size(); ++i) layout.inner *= dims[i];
    layout.channels = layout.modulus = dims[0];
  } else if (IsOp(node, "ConvTranspose") && dims.size() >= 3) {
    const int64_t groups = AttributeInt(node, "group", 1);
    if (groups < 1 || dims[0] % groups != 0) return std::nullopt;
    for (size_t i = 2; i < dims.size(); ++i) layout.inner *= dims[i];
    layout.modulus = dims[1];
    layout.channels = dims[1] * groups;
    layout.group_elements = dims[0] / groups * dims[1] * layout.inner;
  } else if (IsOp(node, "Gemm") && dims.size() == 2) {
    const bool transposed = AttributeInt(node, "transB", 0) != 0;
    layout.channels = layout.modulus = transposed ? dims[0] : dims[1];
    layout.inner = transposed ? dims[1] : 1;
  } else {
    return std::nullopt;
  }
  if (layout.channels <= 0 || layout.inner <= 0) return std::nullopt;
  return layout;
}

}  // namespace

std::optional<AffineLayer> ReadAffineLayer(const onnx::NodeProto& node, const PassView& view) {
  if (node.input_size() < 2) return std::nullopt;
  auto weight = view.Constant(node.input(1));
  if (!weight.has_value() || weight->dtype() != onnx::TensorProto::FLOAT) return std::nullopt;
  const auto layout = LayoutOf(node, weight->dims());
  if (!layout.has_value()) return std::nullopt;
  if (IsOp(node, "Gemm") &&
      (AttributeFloat(node, "alpha", 1.0f) != 1.0f || AttributeFloat(node, "beta", 1.0f) != 1.0f)) {
    return std::nullopt;
  }
  AffineLayer layer;
  layer.channels = layout->channels;
  if (!InputName(node, 2).empty()) {
    const auto bias = view.Constant(node.input(2));
    if (!bias.has_value() || bias->dtype() != onnx::TensorProto::FLOAT) return std::nullopt;
    if (bias->size() != layer.channels || bias->dims().back() != layer.channels) {
      return std::nullopt;
    }
    layer.bias.assign(bias->As<float>().begin(), bias->As<float>().end());
  }
  layer.weight = *std::move(weight);
  return layer;
}

TensorView ScaleWeights(const onnx::NodeProto& node, const AffineLayer& layer,
                        const std::vector<float>& scale) {
  const ChannelLayout layout = *LayoutOf(node, layer.weight.dims());
  const auto values = layer.weight.As<float>();
  std::vector<float> scaled(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    scaled[i] = values[i] * scale[layout.Channel(static_cast<int64_t>(i))];
  }
  return FloatTensor(layer.weight.dims(), scaled);
}

std::optional<std::vector<float>> PerChannel(const TensorView& constant, int rank,
                                             int64_t channels) {
  if (constant.dtype() != onnx::TensorProto::FLOAT) return std::nullopt;
  const auto values = constant.As<float>();
  if (values.size() == 1 && static_cast<int>(constant.dims().size()) <= rank) {
    return std::vector<float>(channels, values[0]);
  }
  // Aligned from the right, the channel axis is the one with rank - 2 axes behind it.
  const auto& dims = constant.dims();
  const int axis = static_cast<int>(dims.size()) - (rank - 1);
  if (axis < 0 || static_cast<int>(dims.size()) > rank) return std::nullopt;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (dims[i] != (i == axis ? channels : 1)) return std::nullopt;
  }
  return std::vector<float>(values.begin(), values.end());
}

TensorView FloatTensor(std::vector<int64_t> dims, const std::vector<float>& values) {
  return TensorView::Of<float>(std::move(dims), values);
}

}  // namespace gq::graph
