#include "common/quantize/settings.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/tensor_view.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;
using onnx::TensorProto;

bool IsEightBit(ElementType type) {
  return type == TensorProto::INT8 || type == TensorProto::UINT8;
}

bool Is16BitInteger(ElementType type) {
  return type == TensorProto::INT16 || type == TensorProto::UINT16;
}

bool UsesPowerOfTwo(const TensorSpec& spec) {
  return spec.method == CalibrationMethod::kMinMse ||
         (spec.method == CalibrationMethod::kMinMax && spec.scale_type == ScaleType::kPowerOfTwo);
}

calibrate::MethodSpec CalibrationOf(const QuantizeConfig& config, ScaleType scale) {
  using calibrate::Method;
  using calibrate::MethodSpec;
  const ExtraOptions& options = config.options;
  const bool asymmetric =
      !config.activation.symmetric && config.compatibility != Compatibility::kQuark;
  switch (config.activation.method) {
    case CalibrationMethod::kMinMse: {
      MethodSpec spec = MethodSpec::Default(Method::kMinMse);
      if (options.num_bins) spec.bins = *options.num_bins;
      if (options.min_mse_mode_pof2_scale == "MostCommon") {
        spec.mode = calibrate::MinMseMode::kMostCommon;
      }
      return spec;
    }
    case CalibrationMethod::kMinMax: {
      if (scale == ScaleType::kPowerOfTwo) return MethodSpec::Default(Method::kNonOverflow);
      MethodSpec spec = MethodSpec::Default(
          options.calib_moving_average.value_or(false) ? Method::kMovingAverage : Method::kMinMax);
      spec.symmetric = options.calib_tensor_range_symmetric.value_or(false);
      return spec;
    }
    case CalibrationMethod::kPercentile: {
      MethodSpec spec = MethodSpec::Default(Method::kPercentile);
      if (options.percentile) spec.percentile = *options.percentile;
      if (options.num_bins) spec.bins = *options.num_bins;
      if (asymmetric) spec.symmetric = false;
      return spec;
    }
    case CalibrationMethod::kEntropy: {
      MethodSpec spec = MethodSpec::Default(Method::kEntropy);
      if (options.num_bins) spec.bins = *options.num_bins;
      return spec;
    }
    case CalibrationMethod::kDistribution: {
      MethodSpec spec = MethodSpec::Default(Method::kDistribution);
      if (options.num_bins) spec.bins = *options.num_bins;
      return spec;
    }
    case CalibrationMethod::kLayerwisePercentile: {
      MethodSpec spec = MethodSpec::Default(Method::kLayerwisePercentile);
      if (options.percentile_candidates) spec.candidates = *options.percentile_candidates;
      if (options.lwp_metric) spec.squared_error = *options.lwp_metric == "mse";
      if (asymmetric) spec.symmetric = false;
      return spec;
    }
  }
  return MethodSpec::Default(Method::kMinMax);
}

WeightMethod WeightMethodOf(const QuantizeConfig& config, ScaleType activation_scale) {
  const auto& options = config.options;
  if (options.weight_calibrate_method == "MinMSE" ||
      (!options.weight_calibrate_method && config.weight.scale_type == ScaleType::kFloat32 &&
       config.weight.method == CalibrationMethod::kMinMse)) {
    return WeightMethod::kFloatMinMse;
  }
  if (activation_scale == ScaleType::kFloat32 || !options.use_power_of2_scale.value_or(true)) {
    return WeightMethod::kFloatMinMax;
  }
  return config.activation.method == CalibrationMethod::kMinMse ? WeightMethod::kPowerOfTwoMinMse
                                                                : WeightMethod::kPowerOfTwoMinMax;
}

absl::Status CheckNpuCnn(const QuantizeConfig& config) {
  const char* problem = nullptr;
  if (config.weight.granularity != Granularity::kTensor) {
    problem = "weights must be quantized per tensor";
  } else if (config.options.reduce_range.value_or(false)) {
    problem = "ReduceRange must be false";
  } else if (config.weight.type != TensorProto::INT8) {
    problem = "weights must be int8";
  } else if (!config.weight.symmetric || !config.activation.symmetric) {
    problem = "weights and activations must be symmetric";
  }
  if (problem == nullptr) return absl::OkStatus();
  return MakeError(Reason::kConfigInvalid,
                   base::StrCat("The NPU-CNN path is on, and there ", problem),
                   "Change the specification, or set extra_options.EnableNPUCnn to false.");
}

void AddOpTypes(const QuantizeConfig& config, bool npu_types,
                const std::vector<std::string>& model_types, Settings* settings) {
  const ExtraOptions& options = config.options;
  if (options.op_types_to_quantize && !options.op_types_to_quantize->empty()) {
    settings->op_types.insert(options.op_types_to_quantize->begin(),
                              options.op_types_to_quantize->end());
  } else {
    settings->op_types = QuantizableTypes(npu_types);
  }
  if (options.extra_op_types_to_quantize) {
    settings->op_types.insert(options.extra_op_types_to_quantize->begin(),
                              options.extra_op_types_to_quantize->end());
  }
  if (options.quantize_all_op_types.value_or(false)) {
    settings->op_types.insert(model_types.begin(), model_types.end());
  }
  for (const auto& type :
       options.op_types_to_exclude_output_quantization.value_or(std::vector<std::string>())) {
    settings->no_output_types.insert(type);
  }
  for (const auto& node :
       options.nodes_to_exclude_output_quantization.value_or(std::vector<std::string>())) {
    settings->no_output_nodes.insert(node);
  }
}

void AddFusedTypes(const ExtraOptions& options, Settings* settings) {
  const std::pair<std::optional<bool>, const char*> kSwitches[] = {
      {options.remove_qdq_conv_clip, "Clip"},
      {options.remove_qdq_conv_relu, "Relu"},
      {options.remove_qdq_conv_leaky_relu, "LeakyRelu"},
      {options.remove_qdq_conv_p_relu, "PRelu"},
  };
  for (const auto& [option, type] : kSwitches) {
    if (option.value_or(true)) settings->fused_types.insert(type);
  }
  if (options.remove_qdq_conv_gelu.value_or(false)) settings->fused_types.insert("Gelu");
}

void AddSimulation(const ExtraOptions& options, Settings* settings) {
  if (settings->path == Path::kPlain || !options.simulate_dpu.value_or(true)) return;
  const bool on = settings->path == Path::kNpuCnn;
  settings->simulation = {
      .leaky_relu = options.convert_leaky_relu_to_dpu_version.value_or(on),
      .sigmoid_to_hard_sigmoid = options.convert_sigmoid_to_hard_sigmoid.value_or(on),
      .hard_sigmoid = options.convert_hard_sigmoid_to_dpu_version.value_or(on),
      .average_pool = options.convert_avg_pool_to_dpu_version.value_or(on),
      .reduce_mean = options.convert_reduce_mean_to_dpu_version.value_or(on),
  };
}

void AddAlignment(const ExtraOptions& options, Settings* settings) {
  if (settings->path == Path::kPlain || !options.npu_limitation_check.value_or(true)) return;
  const bool npu = settings->path == Path::kNpuCnn;
  settings->align = true;
  settings->alignment = {
      .max_rounds = static_cast<int>(options.max_loop_num.value_or(5)),
      .shift_cut = npu && options.adjust_shift_cut.value_or(true),
      .shift_bias = npu && options.adjust_shift_bias.value_or(true),
      .shift_read = npu && options.adjust_shift_read.value_or(true),
      .shift_write = npu && options.adjust_shift_write.value_or(true),
      .hard_sigmoid = npu && options.adjust_hard_sigmoid.value_or(true),
      .shift_swish = npu && options.adjust_shift_swish.value_or(true),
      .concat = options.align_concat.value_or(npu),
      .pool = options.align_pool.value_or(npu),
      .pad = options.align_pad.value_or(npu),
      .slice = options.align_slice.value_or(npu),
      .transpose = !npu && options.align_transpose.value_or(false),
      .reshape = !npu && options.align_reshape.value_or(false),
      .bias_scale = !npu && options.adjust_bias_scale.value_or(true),
  };
}

}  // namespace

std::string_view PathName(Path path) {
  switch (path) {
    case Path::kPlain:
      return "plain QDQ";
    case Path::kNpuCnn:
      return "NPU-CNN";
    case Path::kExtended:
      return "extended";
  }
  return "";
}

absl::StatusOr<Settings> Resolve(const QuantizeConfig& config, bool has_overrides,
                                 const std::vector<std::string>& op_types, int64_t opset) {
  const ExtraOptions& options = config.options;
  Settings settings;
  settings.quark = config.compatibility == Compatibility::kQuark;
  settings.activation_type = config.activation.type;
  settings.activation_symmetric = config.activation.symmetric;
  settings.weight_type = config.weight.type;
  settings.weight_symmetric = config.weight.symmetric;

  const bool by_position = UsesPowerOfTwo(config.activation);
  settings.activation_scale = by_position && options.use_power_of2_scale.value_or(true)
                                  ? ScaleType::kPowerOfTwo
                                  : ScaleType::kFloat32;
  const bool wants_npu = AsksForNpu(config);
  // Quark needs the extended path for 16-bit integers too; plain Q/DQ can hold them.
  const bool wide_types =
      config.force_extended || IsReducedFloat(config.activation.type) ||
      IsReducedFloat(config.weight.type) ||
      (settings.quark && (!IsEightBit(config.activation.type) || !IsEightBit(config.weight.type)));
  if (wide_types || has_overrides) {
    settings.path = Path::kExtended;
  } else if (wants_npu && by_position) {
    settings.path = Path::kNpuCnn;
  } else if (wants_npu) {
    settings.notes.push_back(
        "This calibration method gives float scales, so the NPU-CNN path (alignment, imitated "
        "arithmetic) is off although power-of-two scales were asked for");
  }
  if (settings.path == Path::kNpuCnn) GQ_RETURN_IF_ERROR(CheckNpuCnn(config));

  settings.calibration = CalibrationOf(config, settings.activation_scale);
  settings.weight_method = WeightMethodOf(config, settings.activation_scale);
  settings.per_channel = config.weight.granularity == Granularity::kChannel;
  settings.reduce_range = options.reduce_range.value_or(false);
  settings.activation_scaled =
      IsReducedFloat(settings.activation_type) && options.activation_scaled.value_or(false);
  settings.weight_scaled =
      IsReducedFloat(settings.weight_type) && options.weight_scaled.value_or(false);
  settings.needs_calibration =
      !IsReducedFloat(settings.activation_type) || settings.activation_scaled || has_overrides;

  AddOpTypes(config, wants_npu || wide_types, op_types, &settings);
  settings.force_quantize_no_input_check = options.force_quantize_no_input_check.value_or(false);
  settings.weights_only = options.weights_only.value_or(false);
  settings.constant_matmul_only = options.mat_mul_const_b_only.value_or(false);
  for (const auto& node : options.nodes_to_quantize.value_or(std::vector<std::string>())) {
    settings.only_nodes.insert(node);
  }
  settings.quantize_bias = options.quantize_bias.value_or(true);
  settings.int16_bias = options.int16_bias.value_or(false);
  settings.int32_bias =
      settings.int16_bias || options.int32_bias.value_or(settings.path != Path::kNpuCnn &&
                                                         !IsReducedFloat(settings.weight_type));

  settings.weight_pairs =
      options.add_qdq_pair_to_weight.value_or(IsReducedFloat(settings.weight_type));
  settings.dedicated_pairs = options.dedicated_qdq_pair.value_or(false);
  settings.dual_pairs =
      settings.path == Path::kExtended && options.enable_dual_quant_node_pairs.value_or(false);
  settings.contrib_domain = options.use_qdq_contrib_ops.value_or(false) ||
                            (opset < 21 && (Is16BitInteger(settings.activation_type) ||
                                            Is16BitInteger(settings.weight_type)));
  settings.keep_removable_activations = options.qdq_keep_removable_activations.value_or(false);
  settings.fold_relu = settings.path != Path::kExtended || options.fold_relu.value_or(false);

  AddFusedTypes(options, &settings);
  AddSimulation(options, &settings);
  AddAlignment(options, &settings);
  settings.clip_to_relu = options.convert_clip_to_relu.value_or(false);
  settings.bf16_weights_only = options.enable_vaiml_bf16.value_or(false);
  settings.bf16_to_cast = options.bf16_qdq_to_cast.value_or(settings.bf16_weights_only);
  settings.bf16_clip = options.bf16_with_clip.value_or(false);
  return settings;
}

bool AsksForNpu(const QuantizeConfig& config) {
  return config.options.enable_npu_cnn.value_or(config.activation.scale_type ==
                                                    ScaleType::kPowerOfTwo &&
                                                config.weight.scale_type == ScaleType::kPowerOfTwo);
}

bool NeedsCalibration(const QuantizeConfig& config) {
  if (config.dynamic != DynamicForm::kNone) return false;
  const bool overrides = !config.overrides.empty() || !config.type_overrides.empty() ||
                         !config.tensor_overrides.empty();
  return !IsReducedFloat(config.activation.type) ||
         config.options.activation_scaled.value_or(false) || overrides;
}

const absl::flat_hash_set<std::string>& QuantizableTypes(bool npu) {
  static const auto* const kPlain = new absl::flat_hash_set<std::string>{"Add",
                                                                         "ArgMax",
                                                                         "AveragePool",
                                                                         "Clip",
                                                                         "Concat",
                                                                         "Conv",
                                                                         "ConvTranspose",
                                                                         "EmbedLayerNormalization",
                                                                         "Gather",
                                                                         "Gelu",
                                                                         "Gemm",
                                                                         "GlobalAveragePool",
                                                                         "InstanceNormalization",
                                                                         "LayerNormalization",
                                                                         "LeakyRelu",
                                                                         "MatMul",
                                                                         "MaxPool",
                                                                         "Mul",
                                                                         "Pad",
                                                                         "Relu",
                                                                         "Reshape",
                                                                         "Resize",
                                                                         "Sigmoid",
                                                                         "Softmax",
                                                                         "Split",
                                                                         "Squeeze",
                                                                         "Tanh",
                                                                         "Transpose",
                                                                         "Unsqueeze",
                                                                         "Where"};
  static const auto* const kNpu = [] {
    auto* types = new absl::flat_hash_set<std::string>(*kPlain);
    for (const char* type : {"HardSigmoid", "Div", "Erf", "Sub", "Min", "Max", "ReduceMean",
                             "DepthToSpace", "SpaceToDepth", "Slice", "PRelu", "LpNormalization"}) {
      types->insert(type);
    }
    return types;
  }();
  return npu ? *kNpu : *kPlain;
}

}  // namespace gq::quantize
