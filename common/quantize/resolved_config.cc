#include "common/quantize/resolved_config.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/quantize/node_patterns.h"
#include "common/quantize/preparation.h"
#include "common/quantize/quantize.h"
#include "common/quantize/targets.h"

namespace gq::quantize {
namespace {

using calibrate::Method;

void SortOut(std::vector<std::string>* names) {
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
}

// Names stay as they are, also those that only the optimized model has; patterns become the names
// of what they match in `graph`.
absl::Status Expand(const onnx::GraphProto& graph, const QuantizeConfig& config,
                    std::vector<std::string>* names) {
  std::vector<std::string> expanded, patterns, said;
  for (auto& name : *names) {
    (name.starts_with('^') ? patterns : expanded).push_back(std::move(name));
  }
  const PatternOptions options{.quark = config.compatibility == Compatibility::kQuark,
                               .allow_unmatched = config.allow_unmatched};
  GQ_ASSIGN_OR_RETURN(const auto matched, MatchNodes(graph, patterns, options, &said));
  expanded.insert(expanded.end(), matched.begin(), matched.end());
  SortOut(&expanded);
  *names = std::move(expanded);
  return absl::OkStatus();
}

absl::Status ExpandNames(const onnx::GraphProto& graph, QuantizeConfig* config) {
  for (const auto& [starts, ends] : config->exclude_subgraphs) {
    GQ_ASSIGN_OR_RETURN(const auto region, NodesBetween(graph, starts, ends));
    config->exclude.insert(config->exclude.end(), region.begin(), region.end());
  }
  config->exclude_subgraphs.clear();
  GQ_RETURN_IF_ERROR(Expand(graph, *config, &config->exclude));
  for (auto& entry : config->overrides) {
    GQ_RETURN_IF_ERROR(Expand(graph, *config, &entry.targets));
  }
  if (config->promotion) {
    GQ_RETURN_IF_ERROR(Expand(graph, *config, &config->promotion->nodes));
  }
  std::erase_if(config->overrides, [](const auto& entry) { return entry.targets.empty(); });
  return absl::OkStatus();
}

template <typename Value, typename Default>
void Fill(std::optional<Value>& option, const Default& value) {
  if (!option) option = value;
}

void FillPreparation(const QuantizeConfig& config, ExtraOptions& options) {
  const graph::OptimizeOptions prepared = PreparationFor(config);
  Fill(options.optimize_model, prepared.optimize);
  Fill(options.simplify_model, prepared.simplify);
  Fill(options.convert_split_to_slice, prepared.split_to_slice);
  Fill(options.convert_bn_to_conv, prepared.batch_norm_to_conv);
  Fill(options.convert_reduce_mean_to_global_avg_pool, prepared.reduce_mean_to_pool);
  Fill(options.fuse_gelu, true);
  Fill(options.fuse_layer_norm, true);
  Fill(options.fuse_instance_norm, true);
  Fill(options.fuse_l2_norm, true);
}

void FillForm(const Settings& settings, ExtraOptions& options) {
  Fill(options.force_quantize_no_input_check, settings.force_quantize_no_input_check);
  Fill(options.mat_mul_const_b_only, settings.constant_matmul_only);
  Fill(options.weights_only, settings.weights_only);
  Fill(options.quantize_all_op_types, false);
  Fill(options.quantize_bias, settings.quantize_bias);
  Fill(options.int32_bias, settings.int32_bias);
  Fill(options.int16_bias, settings.int16_bias);
  Fill(options.add_qdq_pair_to_weight, settings.weight_pairs);
  Fill(options.dedicated_qdq_pair, settings.dedicated_pairs);
  Fill(options.reduce_range, settings.reduce_range);
  Fill(options.qdq_keep_removable_activations, settings.keep_removable_activations);
  Fill(options.remove_qdq_conv_clip, settings.fused_types.contains("Clip"));
  Fill(options.remove_qdq_conv_relu, settings.fused_types.contains("Relu"));
  Fill(options.remove_qdq_conv_leaky_relu, settings.fused_types.contains("LeakyRelu"));
  Fill(options.remove_qdq_conv_p_relu, settings.fused_types.contains("PRelu"));
  Fill(options.remove_qdq_conv_gelu, settings.fused_types.contains("Gelu"));
  Fill(options.convert_clip_to_relu, settings.clip_to_relu);
  Fill(options.bf16_qdq_to_cast, settings.bf16_to_cast);
  Fill(options.bf16_with_clip, settings.bf16_clip);
  Fill(options.enable_vaiml_bf16, settings.bf16_weights_only);
}

void FillCalibration(const Settings& settings, ExtraOptions& options) {
  const calibrate::MethodSpec& method = settings.calibration;
  Fill(options.use_random_data, false);
  if (!settings.needs_calibration) return;
  Fill(options.calib_moving_average, false);
  Fill(options.calib_tensor_range_symmetric, false);
  if (method.method == Method::kPercentile) Fill(options.percentile, method.percentile);
  if (method.method == Method::kLayerwisePercentile) {
    Fill(options.percentile_candidates, method.candidates);
    Fill(options.lwp_metric, method.squared_error ? "mse" : "mae");
  } else if (method.method == Method::kMinMse || method.method == Method::kPercentile ||
             method.method == Method::kEntropy || method.method == Method::kDistribution) {
    Fill(options.num_bins, method.bins);
  }
  if (method.method == Method::kMinMse) {
    Fill(options.min_mse_mode_pof2_scale,
         method.mode == calibrate::MinMseMode::kMostCommon ? "MostCommon" : "All");
  }
}

// What the NPU's arithmetic and its compiler ask for.
void FillNpu(const Settings& settings, ExtraOptions& options) {
  if (settings.path == Path::kPlain) return;
  const bool npu = settings.path == Path::kNpuCnn;
  Fill(options.simulate_dpu, true);
  Fill(options.convert_leaky_relu_to_dpu_version, npu);
  Fill(options.convert_sigmoid_to_hard_sigmoid, npu);
  Fill(options.convert_hard_sigmoid_to_dpu_version, npu);
  Fill(options.convert_avg_pool_to_dpu_version, npu);
  Fill(options.convert_reduce_mean_to_dpu_version, npu);
  Fill(options.npu_limitation_check, true);
  Fill(options.max_loop_num, 5);
  Fill(options.align_concat, npu);
  Fill(options.align_pool, npu);
  Fill(options.align_pad, npu);
  Fill(options.align_slice, npu);
  if (!npu) {
    Fill(options.align_transpose, false);
    Fill(options.align_reshape, false);
    Fill(options.adjust_bias_scale, true);
    Fill(options.fold_relu, false);
    Fill(options.enable_dual_quant_node_pairs, false);
    return;
  }
  Fill(options.adjust_shift_cut, true);
  Fill(options.adjust_shift_bias, true);
  Fill(options.adjust_shift_read, true);
  Fill(options.adjust_shift_write, true);
  Fill(options.adjust_hard_sigmoid, true);
  Fill(options.adjust_shift_swish, true);
}

std::vector<std::string> OperatorTypes(const onnx::GraphProto& graph) {
  std::vector<std::string> types;
  for (const auto& node : graph.node()) types.push_back(node.op_type());
  return types;
}

}  // namespace

absl::StatusOr<QuantizeConfig> ResolvedConfig(const QuantizeConfig& config,
                                              const Settings& settings,
                                              const graph::GraphIndex& index,
                                              const ModelOrigin* origin) {
  QuantizeConfig resolved = config;
  GQ_RETURN_IF_ERROR(ExpandNames(origin == nullptr ? index.graph() : *origin->graph, &resolved));
  Fill(resolved.options.enable_npu_cnn, AsksForNpu(config));
  FillPreparation(config, resolved.options);
  // The rest has no meaning where ranges are found at run time.
  if (config.dynamic != DynamicForm::kNone) return resolved;
  FillForm(settings, resolved.options);
  FillCalibration(settings, resolved.options);
  FillNpu(settings, resolved.options);
  return resolved;
}

absl::StatusOr<QuantizeConfig> ResolvedConfig(const QuantizeConfig& config,
                                              const graph::Model& float_model,
                                              const ModelOrigin* origin) {
  const graph::GraphIndex index(float_model.graph());
  GQ_ASSIGN_OR_RETURN(const Targets targets, ResolveTargets(config, index, origin));
  const onnx::GraphProto& named = origin == nullptr ? float_model.graph() : *origin->graph;
  GQ_ASSIGN_OR_RETURN(const Settings settings, Resolve(config, targets.has_overrides,
                                                       OperatorTypes(named), float_model.Opset()));
  return ResolvedConfig(config, settings, index, origin);
}

}  // namespace gq::quantize
