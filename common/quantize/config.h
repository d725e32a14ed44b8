// What a quantization is asked to do. Made by a preset, a scheme (scheme.h), a Quark JSON
// (quark_json.h) or flags; nothing in it depends on a model but names and patterns of nodes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/quantize/extra_options.h"
#include "common/quantize/scale.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {

// kQuark reproduces AMD Quark 0.13 with its faults (spec/engine.md 5); kDefault does better where
// they differ.
enum class Compatibility { kDefault, kQuark };

enum class Granularity { kTensor, kChannel, kGroup };

// Where a range comes from. With a power-of-two scale kMinMax is Quark's NonOverflow.
enum class CalibrationMethod {
  kMinMax,
  kMinMse,
  kPercentile,
  kEntropy,
  kLayerwisePercentile,
  kDistribution,
};

// One of Quark's *Spec classes with its parameters.
struct TensorSpec {
  ElementType type = onnx::TensorProto::INT8;
  bool symmetric = true;
  ScaleType scale_type = ScaleType::kFloat32;
  CalibrationMethod method = CalibrationMethod::kMinMax;
  Granularity granularity = Granularity::kTensor;
  int group_size = 32;  // kGroup

  bool operator==(const TensorSpec&) const = default;
};

TensorSpec XInt8Spec();
TensorSpec Int8Spec();
TensorSpec UInt8Spec();
TensorSpec Int16Spec();
TensorSpec BFloat16Spec();
TensorSpec Float16Spec();

// What applies to the tensors of a layer; a part that is not given keeps the global setting.
struct LayerConfig {
  std::optional<TensorSpec> input_tensors;
  std::optional<TensorSpec> weight;
  std::optional<TensorSpec> bias;
  std::optional<TensorSpec> output_tensors;

  bool operator==(const LayerConfig&) const = default;
};

// Applies to the nodes that `targets` name: exact names, or regular expressions led by '^'
// (node_patterns.h). Later entries win.
struct LayerOverride {
  std::vector<std::string> targets;
  LayerConfig layer;

  bool operator==(const LayerOverride&) const = default;
};

// Element type and symmetry of a single tensor.
struct TensorOverride {
  ElementType type = onnx::TensorProto::BFLOAT16;
  bool symmetric = true;

  bool operator==(const TensorOverride&) const = default;
};

// How layers are held whose scheme finds activation ranges at run time.
enum class DynamicForm { kNone, kInt8, kInt4Blocks };

// How float layers among quantized ones appear (workflow.md --mixed-form).
enum class MixedForm { kFloat, kCast };

// Layers that are put into a higher precision once accuracy recovery has run without that; all
// others keep the integers, positions and biases that they had (explore/promotion.h).
struct Promotion {
  std::vector<std::string> nodes;
  ElementType precision = onnx::TensorProto::BFLOAT16;
  MixedForm form = MixedForm::kFloat;

  bool operator==(const Promotion&) const = default;
};

struct QuantizeConfig {
  std::string scheme = "vint8";  // for the report
  Compatibility compatibility = Compatibility::kDefault;

  TensorSpec activation = XInt8Spec();
  TensorSpec weight = XInt8Spec();
  std::optional<TensorSpec> bias;            // given but without effect, as in Quark
  std::optional<TensorSpec> output_tensors;  // the same

  std::vector<LayerOverride> overrides;       // by node
  std::vector<LayerOverride> type_overrides;  // by operator type; weaker than `overrides`
  std::map<std::string, TensorOverride> tensor_overrides;  // by tensor; strongest

  std::vector<std::string> exclude;  // names and patterns of nodes that stay float
  // Closed regions that stay float: all between the first list (starts) and the second (ends).
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> exclude_subgraphs;
  // Names without a match are a warning instead of an error.
  bool allow_unmatched = false;

  DynamicForm dynamic = DynamicForm::kNone;
  // "bf16" or "fp16": what the NPU's compiler makes of the layers that stay float here
  // (MixedForm::kFloat); the emitted file says so in its metadata. Empty: they stay float32.
  std::string float_precision;
  // Quark's cross-layer equalization of the float model, on in its older API.
  bool include_cle = false;
  // Names of the accuracy recovery passes that may run (recover/recover.h); unset: not said.
  std::optional<std::vector<std::string>> recovery;
  // Widths of biases beside int8 that they may choose (RecoverOptions); empty: the device's.
  std::vector<int> recovery_bias_bits;
  std::optional<Promotion> promotion;
  // Sizes of inputs that the model leaves open.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  // Emits the Extended path even where no override asks for it (Quark's legacy quant_format).
  bool force_extended = false;
  ExtraOptions options;

  // Keys of extra_options without an effect here, kept for the report and the saved file.
  std::map<std::string, std::string> unknown_options;

  bool operator==(const QuantizeConfig&) const = default;
};

}  // namespace gq::quantize
