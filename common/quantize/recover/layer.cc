#include "common/quantize/recover/layer.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/status.h"
#include "common/graph/graph_index.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::quantize {
namespace {

using graph::AttributeFloat;
using graph::AttributeInt;
using graph::AttributeInts;
using graph::AttributeString;
using graph::GraphIndex;
using graph::InputName;

class LayerFinder {
 public:
  LayerFinder(const graph::Model& float_model, const graph::Model& quantized)
      : float_model_(float_model),
        quantized_(quantized),
        floats_(float_model.graph()),
        index_(quantized.graph()) {}

  absl::StatusOr<std::vector<Layer>> Run() {
    std::vector<Layer> layers;
    for (const auto& node : index_.graph().node()) {
      const onnx::NodeProto* original = floats_.FindNode(node.name());
      if (original == nullptr || original->op_type() != node.op_type()) continue;
      Layer layer;
      if (!ReadParameters(node, *original, &layer)) continue;
      const auto* weight = floats_.Initializer(InputName(*original, 1));
      if (weight == nullptr || weight->data_type() != onnx::TensorProto::FLOAT) continue;
      layer.weight_dims = {weight->dims().begin(), weight->dims().end()};
      if (!ReadShape(node, layer.weight_dims, &layer.shape)) continue;
      if (!ReadChannels(node, &layer) || !BiasIsOneAnOutput(layer)) continue;
      GQ_ASSIGN_OR_RETURN(const graph::TensorView values, float_model_.Data(*weight));
      GQ_ASSIGN_OR_RETURN(layer.float_weight, values.ToFloats());
      layers.push_back(std::move(layer));
    }
    return layers;
  }

 private:
  // The bias of a Gemm may be a scalar or a matrix too.
  bool BiasIsOneAnOutput(const Layer& layer) const {
    if (layer.bias.empty()) return true;
    const onnx::TensorProto& bias = *index_.Initializer(layer.bias);
    return bias.dims_size() == 1 && bias.dims(0) == layer.shape.groups * layer.shape.outputs;
  }

  // The DequantizeLinear that makes `tensor` out of an initializer nobody else reads.
  const onnx::NodeProto* ConstantPair(std::string_view tensor) const {
    const onnx::NodeProto* pair = index_.Producer(tensor);
    if (pair == nullptr || !IsDequantizeNode(*pair) || !index_.IsInitializer(pair->input(0)) ||
        index_.OnlyConsumer(pair->output(0)) == nullptr ||
        index_.Uses(pair->input(0)).size() != 1) {
      return nullptr;
    }
    return index_.IsInitializer(InputName(*pair, 1)) ? pair : nullptr;
  }

  std::vector<double> Scales(std::string_view name) const {
    const auto view = quantized_.Data(*index_.Initializer(name));
    if (!view.ok()) return {};
    auto values = view->ToDoubles();
    return values.ok() ? *std::move(values) : std::vector<double>{};
  }

  // The scales of weight and bias: one each, or one for each output.
  bool ReadChannels(const onnx::NodeProto& node, Layer* layer) const {
    std::vector<double> scales = Scales(layer->weight_scale);
    const size_t biases = layer->bias.empty() ? 0 : Scales(layer->bias_scale).size();
    if (scales.size() == 1) return biases <= 1;
    const LayerShape& shape = layer->shape;
    const auto rank = static_cast<int64_t>(layer->weight_dims.size());
    int64_t axis = AttributeInt(*index_.Producer(node.input(1)), "axis", 1);
    if (axis < 0) axis += rank;
    const int64_t outputs_axis = shape.kind == LayerKind::kConv ? 0
                                 : shape.kind == LayerKind::kDense
                                     ? (shape.transposed_weight ? 0 : 1)
                                     : 1;
    const bool fits =
        axis == outputs_axis && (shape.kind != LayerKind::kConvTranspose || shape.groups == 1) &&
        scales.size() == static_cast<size_t>(shape.groups * shape.outputs) &&
        std::all_of(scales.begin(), scales.end(), [](double scale) { return scale > 0; });
    if (!fits) return false;
    if (biases != 0) {
      const bool wide = index_.Initializer(layer->bias)->data_type() == onnx::TensorProto::INT32;
      if (biases != scales.size() || !wide || layer->input_scale.empty()) return false;
    }
    layer->channel_scales = std::move(scales);
    return true;
  }

  bool ReadParameters(const onnx::NodeProto& node, const onnx::NodeProto& original, Layer* layer) {
    const onnx::NodeProto* weight = ConstantPair(InputName(node, 1));
    if (weight == nullptr ||
        index_.Initializer(weight->input(0))->data_type() != onnx::TensorProto::INT8) {
      return false;
    }
    layer->name = node.name();
    layer->input = node.input(0);
    layer->float_input = original.input(0);
    layer->float_output = original.output(0);
    layer->weight = weight->input(0);
    layer->weight_scale = weight->input(1);
    layer->own_weight_scale = index_.Uses(weight->input(1)).size() == 1;
    if (!InputName(node, 2).empty()) {
      const onnx::NodeProto* bias = ConstantPair(node.input(2));
      if (bias == nullptr) return false;  // a bias that cannot follow
      layer->bias = bias->input(0);
      layer->bias_scale = bias->input(1);
      layer->own_bias_scale = index_.Uses(bias->input(1)).size() == 1;
    }
    const onnx::NodeProto* before = index_.Producer(node.input(0));
    if (before != nullptr && IsDequantizeNode(*before)) layer->input_scale = before->input(1);
    ReadActivation(node, layer);
    return true;
  }

  void ReadActivation(const onnx::NodeProto& node, Layer* layer) {
    layer->low = -std::numeric_limits<float>::infinity();
    layer->high = std::numeric_limits<float>::infinity();
    const onnx::NodeProto* reader = index_.OnlyConsumer(node.output(0));
    for (int step = 0; reader != nullptr && step < 2; ++step) {
      if (IsQuantizeNode(*reader)) {
        layer->output_scale = reader->input(1);
        return;
      }
      if (reader->op_type() == "Relu") {
        layer->low = 0;
      } else if (reader->op_type() == "Clip") {
        if (const auto low = Scalar(InputName(*reader, 1))) layer->low = *low;
        if (const auto high = Scalar(InputName(*reader, 2))) layer->high = *high;
      } else if (reader->op_type() == "LeakyRelu" || reader->op_type() == "PRelu") {
        layer->before_leaky_relu = true;
      } else {
        return;
      }
      reader = index_.OnlyConsumer(reader->output(0));
    }
  }

  std::optional<float> Scalar(std::string_view name) const {
    const auto* tensor = floats_.Initializer(name);
    if (tensor == nullptr) return std::nullopt;
    const auto view = float_model_.Data(*tensor);
    if (!view.ok() || view->size() != 1) return std::nullopt;
    return static_cast<float>(view->At(0));
  }

  static bool ReadShape(const onnx::NodeProto& node, const std::vector<int64_t>& dims,
                        LayerShape* shape) {
    if (graph::IsOp(node, "Gemm")) {
      shape->transposed_weight = AttributeInt(node, "transB", 0) != 0;
      if (AttributeInt(node, "transA", 0) != 0 || AttributeFloat(node, "alpha", 1) != 1 ||
          AttributeFloat(node, "beta", 1) != 1) {
        return false;
      }
    } else if (!graph::IsOp(node, "MatMul")) {
      return ReadConvShape(node, dims, shape);
    }
    if (dims.size() != 2) return false;
    shape->outputs = shape->transposed_weight ? dims[0] : dims[1];
    shape->inputs = shape->transposed_weight ? dims[1] : dims[0];
    return true;
  }

  static bool ReadConvShape(const onnx::NodeProto& node, const std::vector<int64_t>& dims,
                            LayerShape* shape) {
    const bool conv = graph::IsOp(node, "Conv");
    if (!conv && !graph::IsOp(node, "ConvTranspose")) return false;
    if (dims.size() != 3 && dims.size() != 4) return false;
    const std::string pad = AttributeString(node, "auto_pad", "NOTSET");
    if (pad != "NOTSET" && pad != "VALID") return false;
    if (!AttributeInts(node, "output_shape").empty()) return false;
    shape->kind = conv ? LayerKind::kConv : LayerKind::kConvTranspose;
    shape->groups = AttributeInt(node, "group", 1);
    if (shape->groups <= 0) return false;
    const size_t rank = dims.size() - 2, skip = 2 - rank;
    const auto strides = AttributeInts(node, "strides", std::vector<int64_t>(rank, 1));
    const auto dilations = AttributeInts(node, "dilations", std::vector<int64_t>(rank, 1));
    const auto pads = AttributeInts(node, "pads", std::vector<int64_t>(2 * rank, 0));
    if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank) return false;
    for (size_t axis = 0; axis < rank; ++axis) {
      shape->kernel[axis + skip] = dims[axis + 2];
      shape->stride[axis + skip] = strides[axis];
      shape->dilation[axis + skip] = dilations[axis];
      shape->pad[axis + skip] = pads[axis];
    }
    shape->channels = conv ? dims[1] : dims[0] / shape->groups;
    shape->outputs = conv ? dims[0] / shape->groups : dims[1];
    shape->inputs = shape->channels * shape->kernel[0] * shape->kernel[1];
    return true;
  }

  const graph::Model& float_model_;
  const graph::Model& quantized_;
  GraphIndex floats_;
  GraphIndex index_;
};

}  // namespace

absl::StatusOr<std::vector<Layer>> FindLayers(const graph::Model& float_model,
                                              const graph::Model& quantized) {
  return LayerFinder(float_model, quantized).Run();
}

}  // namespace gq::quantize
