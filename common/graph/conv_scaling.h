// Folding an affine function per output channel into the weights of a layer before it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/graph/pass.h"

namespace gq::graph {

// A Conv, ConvTranspose or Gemm with constant weights and bias.
struct AffineLayer {
  TensorView weight;
  std::vector<float> bias;  // empty when the layer has none
  int64_t channels = 0;     // output channels
};

// nullopt when the node is no such layer, its weights are not constant float32, or it scales its
// result itself.
std::optional<AffineLayer> ReadAffineLayer(const onnx::NodeProto& node, const PassView& view);

// The weights with output channel c multiplied by scale[c], in float32.
TensorView ScaleWeights(const onnx::NodeProto& node, const AffineLayer& layer,
                        const std::vector<float>& scale);

// One value for each of `channels` out of a constant that is broadcast along axis 1 of a tensor of
// `rank` dimensions: a scalar, or the shape [C, 1, ..., 1] with leading ones allowed. nullopt when
// it varies along another axis.
std::optional<std::vector<float>> PerChannel(const TensorView& constant, int rank,
                                             int64_t channels);

TensorView FloatTensor(std::vector<int64_t> dims, const std::vector<float>& values);

}  // namespace gq::graph
