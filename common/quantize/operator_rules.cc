#include "common/quantize/operator_rules.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "common/graph/graph_index.h"

namespace gq::quantize {
namespace {

using graph::AttributeFloat;
using graph::AttributeInt;
using graph::FindAttribute;
using Rule = void (*)(const onnx::NodeProto&, Placer&);

void MarkOutputs(const onnx::NodeProto& node, Placer& placer) {
  if (!placer.QuantizesOutput(node)) return;
  for (const auto& output : node.output()) placer.Mark(output);
}

// Every float input and output has its own parameters.
void PlaceAll(const onnx::NodeProto& node, Placer& placer) {
  for (const auto& input : node.input()) placer.Mark(input);
  MarkOutputs(node, placer);
}

void PlaceConv(const onnx::NodeProto& node, Placer& placer) {
  placer.Mark(node.input(0));
  MarkOutputs(node, placer);
  // The output channels of a grouped ConvTranspose do not lie along one axis of its weight.
  const bool grouped = node.op_type() == "ConvTranspose" && AttributeInt(node, "group", 1) > 1;
  if (grouped && !placer.settings().quark) {
    placer.Mark(node.input(1));
  } else {
    placer.MarkWeight(node.input(1), node.op_type() == "Conv" ? 0 : 1);
  }
  if (node.input_size() == 3) placer.MarkBias(node, node.input(2), 1);
}

void PlaceGemm(const onnx::NodeProto& node, Placer& placer) {
  placer.Mark(node.input(0));
  MarkOutputs(node, placer);
  placer.MarkWeight(node.input(1), AttributeInt(node, "transB", 0) > 0 ? 0 : 1);
  if (node.input_size() != 3 || !placer.index().IsInitializer(node.input(2))) return;
  placer.MarkBias(node, node.input(2), AttributeFloat(node, "beta", 1));
  if (FindAttribute(node, "beta") != nullptr) placer.NoteBetaInBias(node);
}

// The columns are the channels; Quark takes axis 1 whatever the rank.
void PlaceMatMul(const onnx::NodeProto& node, Placer& placer) {
  if (placer.settings().constant_matmul_only && !placer.index().IsInitializer(node.input(1))) {
    placer.Refuse(node, "MatMul of two activations");
    return;
  }
  const int axis = placer.settings().quark ? 1 : -1;
  for (const auto& input : node.input()) {
    const onnx::TensorProto* constant = placer.index().Initializer(input);
    if (constant != nullptr && constant->dims_size() > 1) {
      placer.MarkWeight(input, axis);
    } else {
      placer.Mark(input);
    }
  }
  MarkOutputs(node, placer);
}

// A constant of one float; nothing where the tensor is none.
std::optional<float> FloatConstant(const onnx::TensorProto* tensor) {
  if (tensor == nullptr || tensor->data_type() != onnx::TensorProto::FLOAT) return std::nullopt;
  if (tensor->float_data_size() == 1) return tensor->float_data(0);
  if (tensor->raw_data().size() != sizeof(float)) return std::nullopt;
  float value = 0;
  std::memcpy(&value, tensor->raw_data().data(), sizeof(value));
  return value;
}

// Ranges hold zero always, so that saturation cannot stand for a Clip that keeps values off zero.
bool KeepsOffZero(const onnx::NodeProto& node, const graph::GraphIndex& index) {
  if (node.op_type() != "Clip") return false;
  const auto bound = [&](int input, const char* attribute) {
    if (const auto* old = FindAttribute(node, attribute)) return std::optional<float>(old->f());
    return FloatConstant(index.Initializer(graph::InputName(node, input)));
  };
  const std::optional<float> low = bound(1, "min");
  const std::optional<float> high = bound(2, "max");
  return (low && *low > 0) || (high && *high < 0);
}

void PlaceRemovableActivation(const onnx::NodeProto& node, Placer& placer) {
  if (!placer.IsMarked(node.input(0))) {
    placer.Refuse(node, "its input is not quantized");
    return;
  }
  const bool stays = !placer.settings().quark && KeepsOffZero(node, placer.index());
  if (stays || !placer.Absorb(node)) placer.Mark(node.input(0));
  MarkOutputs(node, placer);
}

// Moves data only: the output takes over the input's parameters.
void PlaceDataMovement(const onnx::NodeProto& node, Placer& placer) {
  if (placer.settings().force_quantize_no_input_check) {
    placer.Mark(node.input(0));
  } else if (!placer.IsMarked(node.input(0))) {
    placer.Refuse(node, "its input is not quantized");
    return;
  }
  if (placer.QuantizesOutput(node)) placer.MarkShared(node.output(0), node.input(0));
}

// Of a Resize that makes values which its input does not have: beyond the image's border, or where
// a cubic curve overshoots.
bool LeavesInputRange(const onnx::NodeProto& node) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "coordinate_transformation_mode" &&
        attribute.s() == "tf_crop_and_resize") {
      return true;
    }
    if (attribute.name() == "mode" && attribute.s() == "cubic") return true;
  }
  return false;
}

void PlaceResize(const onnx::NodeProto& node, Placer& placer) {
  const bool shares = placer.settings().quark || !LeavesInputRange(node);
  if (shares || !placer.IsMarked(node.input(0))) return PlaceDataMovement(node, placer);
  if (placer.QuantizesOutput(node)) placer.Mark(node.output(0));
}

void PlaceGather(const onnx::NodeProto& node, Placer& placer) {
  if (placer.IsFloatConstant(node.input(0)) || placer.settings().force_quantize_no_input_check) {
    placer.Mark(node.input(0));
  } else if (!placer.IsMarked(node.input(0))) {
    placer.Refuse(node, "its input is not quantized");
    return;
  }
  placer.MarkShared(node.output(0), node.input(0));
}

void PlaceSplit(const onnx::NodeProto& node, Placer& placer) {
  if (!placer.IsMarked(node.input(0))) placer.Mark(node.input(0));
  if (!placer.QuantizesOutput(node)) return;
  for (const auto& output : node.output()) placer.MarkShared(output, node.input(0));
}

void PlaceWhere(const onnx::NodeProto& node, Placer& placer) {
  if (placer.settings().force_quantize_no_input_check) {
    placer.Mark(node.input(1));
    placer.Mark(node.input(2));
  } else if (!placer.IsMarked(node.input(1)) || !placer.IsMarked(node.input(2))) {
    placer.Refuse(node, "its inputs are not quantized");
    return;
  }
  MarkOutputs(node, placer);
}

void PlaceInstanceNormalization(const onnx::NodeProto& node, Placer& placer) {
  placer.Mark(node.input(0));
  placer.MarkWeight(node.input(1), 1);
  if (node.input_size() > 2) placer.MarkBias(node, node.input(2), 1);
  MarkOutputs(node, placer);
}

void PlaceLayerNormalization(const onnx::NodeProto& node, Placer& placer) {
  if (placer.settings().force_quantize_no_input_check) {
    placer.Mark(node.input(0));
  } else if (!placer.IsMarked(node.input(0))) {
    placer.Refuse(node, "its input is not quantized");
    return;
  }
  if (placer.QuantizesOutput(node)) placer.Mark(node.output(0));
  // gamma of one dimension has one scale also where weights have one a channel.
  const onnx::TensorProto* gamma = placer.index().Initializer(node.input(1));
  if (gamma != nullptr && gamma->dims_size() > 1) {
    placer.MarkWeight(node.input(1), 0);
  } else {
    placer.Mark(node.input(1));
  }
  if (node.input_size() > 2) placer.Mark(node.input(2));
}

void PlaceHardSigmoid(const onnx::NodeProto& node, Placer& placer) {
  if (!IsNpuHardSigmoid(node)) {
    placer.Refuse(node, "HardSigmoid other than alpha 1/6, beta 0.5 is not on the NPU");
    return;
  }
  placer.Mark(node.input(0));
  placer.Mark(node.output(0));
}

void PlacePRelu(const onnx::NodeProto& node, Placer& placer) {
  placer.Mark(node.input(0));
  MarkOutputs(node, placer);
  placer.MarkWeight(node.input(1), 0);
}

const absl::flat_hash_map<std::string, Rule>& CommonRules() {
  static const auto* const kRules = new absl::flat_hash_map<std::string, Rule>{
      {"Conv", PlaceConv},
      {"ConvTranspose", PlaceConv},
      {"Gemm", PlaceGemm},
      {"MatMul", PlaceMatMul},
      {"Relu", PlaceRemovableActivation},
      {"Clip", PlaceRemovableActivation},
      {"Reshape", PlaceDataMovement},
      {"Transpose", PlaceDataMovement},
      {"Squeeze", PlaceDataMovement},
      {"Unsqueeze", PlaceDataMovement},
      {"Resize", PlaceResize},
      {"MaxPool", PlaceDataMovement},
      {"AveragePool", PlaceDataMovement},
      {"Split", PlaceSplit},
      {"Gather", PlaceGather},
      {"Where", PlaceWhere},
      {"InstanceNormalization", PlaceInstanceNormalization},
      {"LayerNormalization", PlaceLayerNormalization},
  };
  return *kRules;
}

// What NPU-CNN and extended do differently.
const absl::flat_hash_map<std::string, Rule>& NpuRules() {
  static const auto* const kRules = new absl::flat_hash_map<std::string, Rule>{
      {"AveragePool", PlaceAll},
      {"HardSigmoid", PlaceHardSigmoid},
      {"PRelu", PlacePRelu},
  };
  return *kRules;
}

}  // namespace

void PlaceNode(const onnx::NodeProto& node, Placer& placer) {
  if (placer.settings().path != Path::kPlain) {
    if (const auto it = NpuRules().find(node.op_type()); it != NpuRules().end()) {
      it->second(node, placer);
      return;
    }
  }
  const auto it = CommonRules().find(node.op_type());
  (it == CommonRules().end() ? &PlaceAll : it->second)(node, placer);
}

bool IsNpuHardSigmoid(const onnx::NodeProto& node) {
  constexpr float kTolerance = 1e-6f;
  const onnx::AttributeProto* alpha = FindAttribute(node, "alpha");
  return alpha != nullptr && std::fabs(alpha->f() - 1.0f / 6.0f) < kTolerance &&
         std::fabs(AttributeFloat(node, "beta", 0.5f) - 0.5f) < kTolerance;
}

}  // namespace gq::quantize
