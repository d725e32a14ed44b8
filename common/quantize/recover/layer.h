// Compute layers of a quantized model whose weights recovery may choose anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/moments.h"
#include "common/runtime/tensor.h"

namespace gq::quantize {

enum class LayerKind { kConv, kConvTranspose, kDense };

// Sizes of a layer as a matrix product a group: M outputs from K inputs.
struct LayerShape {
  LayerKind kind = LayerKind::kDense;
  int64_t groups = 1;
  int64_t outputs = 0;             // M, of one group
  int64_t inputs = 0;              // K, of one group: channels * kernel for convolutions
  bool transposed_weight = false;  // kDense: the weight is M x K
  // Convolutions, as height and width; a one-dimensional one has height 1.
  int64_t channels = 0;  // read by one group
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t dilation[2] = {1, 1};
  int64_t pad[2] = {0, 0};  // at the beginning
};

// A Conv, ConvTranspose, Gemm or MatMul whose weight is a constant of int8, with one scale or one
// an output, that nothing else reads.
struct Layer {
  std::string name;
  LayerShape shape;
  std::string input;         // data input in the quantized model
  std::string float_output;  // output of the same node in the float model
  std::string float_input;   // data input in the float model
  std::string weight;        // initializers of the quantized model: int8
  std::string weight_scale;
  // One an output, group by group; empty for one scale. The bias then is int32 with the scales
  // input * weight.
  std::vector<double> channel_scales;
  std::string bias;  // int8, int16 or int32; empty when the layer has none that can be changed
  std::string bias_scale;
  bool own_weight_scale = false;  // nobody else reads weight_scale; the same for the bias
  bool own_bias_scale = false;
  std::string input_scale;   // of the pair that makes `input`; empty when it is float
  std::string output_scale;  // of the pair behind the layer, through a fused activation
  bool before_leaky_relu = false;
  // What the activation fused behind the layer lets through; infinite without one.
  float low = 0, high = 0;
  std::vector<float> float_weight;  // in the order of the initializer
  std::vector<int64_t> weight_dims;
};

// In graph order. Layers that do not fit (shared or non-constant weights, scales along another axis
// than the outputs, attributes that scale) are left out.
absl::StatusOr<std::vector<Layer>> FindLayers(const graph::Model& float_model,
                                              const graph::Model& quantized);

// Weights in the order of the initializer <-> one M x K matrix a group.
std::vector<RowMatrix> ToMatrices(const LayerShape& shape, const std::vector<float>& weight);
std::vector<float> ToFloats(const LayerShape& shape, const std::vector<RowMatrix>& weights);
std::vector<int8_t> ToInitializer(const LayerShape& shape, const std::vector<RowMatrix>& integers);

// Observed positions of one sample: for each row all groups side by side.
struct Observations {
  FloatRows features;  // positions x (groups * K)
  FloatRows targets;   // positions x (groups * M)
};

// Takes `positions` places of the output (all when there are fewer), spread by `seed`: what the
// layer reads there, and what `output` holds. MODEL_UNSUPPORTED when the shapes do not belong
// together.
absl::StatusOr<Observations> Observe(const LayerShape& shape, const runtime::Tensor& input,
                                     const runtime::Tensor& output, int64_t positions,
                                     uint64_t seed);

}  // namespace gq::quantize
