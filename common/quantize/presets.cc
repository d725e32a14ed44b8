#include "common/quantize/presets.h"

namespace gq::quantize {

QuantizeConfig QuarkVint8() {
  QuantizeConfig config;
  config.scheme = "vint8";
  ExtraOptions& options = config.options;
  options.optimize_model = false;
  options.enable_npu_cnn = false;
  options.use_random_data = false;
  options.convert_bn_to_conv = true;
  options.convert_sigmoid_to_hard_sigmoid = false;
  options.convert_clip_to_relu = true;
  options.convert_split_to_slice = true;
  options.split_large_kernel_pool = false;
  options.replace_clip6_relu = true;
  options.convert_reduce_mean_to_global_avg_pool = false;
  options.remove_qdq_conv_clip = false;
  options.remove_qdq_conv_p_relu = false;
  options.remove_qdq_conv_relu = false;
  options.remove_qdq_conv_leaky_relu = false;
  options.int32_bias = false;
  options.dedicated_qdq_pair = true;
  options.quantize_all_op_types = true;
  return config;
}

QuantizeConfig QuarkXint8() {
  QuantizeConfig config;
  config.scheme = "xint8";
  config.options.force_quantize_no_input_check = true;
  config.options.use_random_data = false;
  return config;
}

QuantizeConfig QuarkBf16() {
  QuantizeConfig config;
  config.scheme = "bf16";
  config.activation = BFloat16Spec();
  config.weight = BFloat16Spec();
  config.options.force_quantize_no_input_check = true;
  config.options.use_random_data = false;
  return config;
}

QuantizeConfig QuarkA8w8() {
  QuantizeConfig config;
  config.scheme = "W8-A8";
  config.activation = Int8Spec();
  config.weight = Int8Spec();
  ExtraOptions& options = config.options;
  options.force_quantize_no_input_check = true;
  options.align_slice = false;
  options.fold_relu = true;
  options.align_concat = true;
  options.use_random_data = false;
  return config;
}

QuantizeConfig QuarkXint8Legacy() {
  QuantizeConfig config = QuarkXint8();
  config.activation.type = onnx::TensorProto::UINT8;
  return config;
}

QuantizeConfig Vint8Npu() {
  QuantizeConfig config;
  config.scheme = "vint8";
  config.options.dedicated_qdq_pair = true;
  config.options.use_random_data = false;
  return config;
}

}  // namespace gq::quantize
