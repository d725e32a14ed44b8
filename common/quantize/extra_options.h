// The options of a quantization beside element types and layers: Quark's extra_options as typed
// fields. A field that is not set takes the default of the path (settings.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gq::quantize {

// Field names are Quark's keys in snake_case; the table in option_table.cc pairs them.
struct ExtraOptions {
  // What is quantized.
  std::optional<std::vector<std::string>> op_types_to_quantize;
  std::optional<std::vector<std::string>> extra_op_types_to_quantize;
  std::optional<std::vector<std::string>> op_types_to_exclude_output_quantization;
  std::optional<std::vector<std::string>> nodes_to_exclude_output_quantization;
  std::optional<std::vector<std::string>> nodes_to_quantize;
  std::optional<bool> quantize_all_op_types;
  std::optional<bool> force_quantize_no_input_check;
  std::optional<bool> mat_mul_const_b_only;
  std::optional<bool> weights_only;
  std::optional<bool> quantize_bias;
  std::optional<bool> int32_bias;
  std::optional<bool> int16_bias;
  // The path, and the form of the result.
  std::optional<bool> enable_npu_cnn;
  std::optional<bool> add_qdq_pair_to_weight;
  std::optional<bool> dedicated_qdq_pair;
  std::optional<bool> enable_dual_quant_node_pairs;
  std::optional<bool> use_qdq_contrib_ops;
  std::optional<bool> use_power_of2_scale;
  std::optional<bool> reduce_range;
  std::optional<bool> activation_scaled;
  std::optional<bool> weight_scaled;
  std::optional<bool> bf16_qdq_to_cast;
  std::optional<bool> bf16_with_clip;
  std::optional<bool> enable_vaiml_bf16;
  std::optional<bool> fold_relu;
  std::optional<bool> qdq_keep_removable_activations;
  // Calibration.
  std::optional<int64_t> calib_data_size;
  std::optional<bool> calib_moving_average;
  std::optional<double> calib_moving_average_constant;
  std::optional<bool> calib_tensor_range_symmetric;
  std::optional<double> percentile;
  std::optional<std::vector<double>> percentile_candidates;
  std::optional<std::string> lwp_metric;
  std::optional<std::string> min_mse_mode_pof2_scale;
  std::optional<std::string> weight_calibrate_method;
  std::optional<int64_t> num_bins;
  std::optional<bool> use_random_data;
  // Preparation of the float model (carried out by the graph optimizer).
  std::optional<bool> optimize_model;
  std::optional<bool> simplify_model;
  std::optional<bool> convert_bn_to_conv;
  std::optional<bool> convert_reduce_mean_to_global_avg_pool;
  std::optional<bool> convert_split_to_slice;
  std::optional<bool> split_large_kernel_pool;
  std::optional<bool> replace_clip6_relu;
  std::optional<bool> fold_batch_norm;
  std::optional<bool> fuse_instance_norm;
  std::optional<bool> fuse_l2_norm;
  std::optional<bool> fuse_gelu;
  std::optional<bool> fuse_layer_norm;
  // Clean-up behind the insertion of Q/DQ.
  std::optional<bool> remove_qdq_conv_clip;
  std::optional<bool> remove_qdq_conv_relu;
  std::optional<bool> remove_qdq_conv_leaky_relu;
  std::optional<bool> remove_qdq_conv_p_relu;
  std::optional<bool> remove_qdq_conv_gelu;
  std::optional<bool> convert_clip_to_relu;
  // Imitation of the NPU's arithmetic.
  std::optional<bool> simulate_dpu;
  std::optional<bool> convert_leaky_relu_to_dpu_version;
  std::optional<bool> convert_sigmoid_to_hard_sigmoid;
  std::optional<bool> convert_hard_sigmoid_to_dpu_version;
  std::optional<bool> convert_avg_pool_to_dpu_version;
  std::optional<bool> convert_reduce_mean_to_dpu_version;
  // Alignment of positions.
  std::optional<bool> npu_limitation_check;
  std::optional<int64_t> max_loop_num;
  std::optional<bool> adjust_shift_cut;
  std::optional<bool> adjust_shift_bias;
  std::optional<bool> adjust_shift_read;
  std::optional<bool> adjust_shift_write;
  std::optional<bool> adjust_hard_sigmoid;
  std::optional<bool> adjust_shift_swish;
  std::optional<bool> adjust_bias_scale;
  std::optional<bool> align_concat;
  std::optional<bool> align_pool;
  std::optional<bool> align_pad;
  std::optional<bool> align_slice;
  std::optional<bool> align_transpose;
  std::optional<bool> align_reshape;

  bool operator==(const ExtraOptions&) const = default;
};

}  // namespace gq::quantize
