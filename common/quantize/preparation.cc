#include "common/quantize/preparation.h"

#include <utility>

#include "common/quantize/settings.h"

namespace gq::quantize {
namespace {

using onnx::TensorProto;

bool IsReduced(const TensorSpec& spec) { return IsReducedFloat(spec.type); }

bool IsInteger(const TensorSpec& spec) {
  return spec.type == TensorProto::INT8 || spec.type == TensorProto::UINT8 ||
         spec.type == TensorProto::INT16 || spec.type == TensorProto::UINT16;
}

// Quark gives shared biases copies where scales are floats that ONNX Runtime's own methods find.
bool CopiesBiases(const QuantizeConfig& config) {
  const bool by_position = config.activation.method == CalibrationMethod::kMinMse ||
                           (config.activation.method == CalibrationMethod::kMinMax &&
                            config.activation.scale_type == ScaleType::kPowerOfTwo);
  return config.compatibility == Compatibility::kQuark && IsInteger(config.activation) &&
         IsInteger(config.weight) && !by_position &&
         config.activation.method != CalibrationMethod::kLayerwisePercentile;
}

}  // namespace

graph::OptimizeOptions PreparationFor(const QuantizeConfig& config) {
  const ExtraOptions& options = config.options;
  const bool quark = config.compatibility == Compatibility::kQuark;
  graph::OptimizeOptions prepared;
  prepared.optimize = options.optimize_model.value_or(true);
  prepared.simplify = options.simplify_model.value_or(true);
  const bool casts =
      options.bf16_qdq_to_cast.value_or(false) || options.enable_vaiml_bf16.value_or(false);
  const bool extended = IsReduced(config.activation) || IsReduced(config.weight);
  prepared.npu = AsksForNpu(config) || (extended && !casts);
  prepared.split_to_slice = options.convert_split_to_slice.value_or(prepared.npu);
  prepared.batch_norm_to_conv = options.convert_bn_to_conv.value_or(prepared.npu);
  prepared.reduce_mean_to_pool =
      options.convert_reduce_mean_to_global_avg_pool.value_or(prepared.npu);
  prepared.gemm = quark;
  prepared.copy_biases = CopiesBiases(config);
  prepared.equalize = config.include_cle;
  prepared.clip6_to_relu = options.replace_clip6_relu.value_or(false);
  prepared.by_runtime = quark;
  const std::pair<std::optional<bool>, const char*> kSwitches[] = {
      {options.fuse_gelu, "gelu-fusion"},
      {options.fuse_layer_norm, "layer-norm-fusion"},
      {options.fuse_instance_norm, "instance-norm-fusion"},
      {options.fuse_l2_norm, "l2-norm-fusion"},
      {options.convert_bn_to_conv, "batch-norm-to-conv"},
      {options.convert_reduce_mean_to_global_avg_pool, "reduce-mean-to-pool"},
      {options.convert_split_to_slice, "split-to-slice"},
  };
  for (const auto& [option, pass] : kSwitches) {
    if (!option.value_or(true)) prepared.disabled.emplace_back(pass);
  }
  return prepared;
}

}  // namespace gq::quantize
