// A configuration with every default filled in: the path that does the work and each switch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "common/calibrate/method.h"
#include "common/quantize/config.h"

namespace gq::quantize {

// The way a model is quantized. kPlain: Q/DQ of the default domain. kNpuCnn: the same plus what the
// NPU's compiler needs (imitated arithmetic, aligned positions). kExtended: mixed precision and
// float types, through operators of com.amd.quark and com.microsoft.
enum class Path { kPlain, kNpuCnn, kExtended };
std::string_view PathName(Path path);  // "plain QDQ", "NPU-CNN", "extended"

// How weights get their scale.
enum class WeightMethod {
  kPowerOfTwoMinMse,
  kPowerOfTwoMinMax,
  kFloatMinMax,
  kFloatMinMse,
};

struct DpuSimulation {
  bool leaky_relu = false;
  bool sigmoid_to_hard_sigmoid = false;
  bool hard_sigmoid = false;
  bool average_pool = false;
  bool reduce_mean = false;
};

struct Alignment {
  int max_rounds = 5;
  bool shift_cut = false;
  bool shift_bias = false;
  bool shift_read = false;
  bool shift_write = false;
  bool hard_sigmoid = false;
  bool shift_swish = false;
  bool concat = false;
  bool pool = false;
  bool pad = false;
  bool slice = false;
  bool transpose = false;
  bool reshape = false;
  bool bias_scale = false;  // kExtended: int32 bias scale = input scale * weight scale
};

struct Settings {
  Path path = Path::kPlain;
  bool quark = false;  // Compatibility::kQuark

  // Activations and weights where no override says otherwise.
  ElementType activation_type = 0;
  bool activation_symmetric = true;
  ScaleType activation_scale = ScaleType::kFloat32;
  ElementType weight_type = 0;
  bool weight_symmetric = true;
  WeightMethod weight_method = WeightMethod::kFloatMinMax;
  bool per_channel = false;
  bool reduce_range = false;
  bool activation_scaled = false;
  bool weight_scaled = false;

  calibrate::MethodSpec calibration;
  bool needs_calibration = true;

  // Operator types that are quantized.
  absl::flat_hash_set<std::string> op_types;
  absl::flat_hash_set<std::string> no_output_types;
  absl::flat_hash_set<std::string> no_output_nodes;
  bool force_quantize_no_input_check = false;
  bool weights_only = false;
  bool constant_matmul_only = false;            // MatMul of two activations stays float
  absl::flat_hash_set<std::string> only_nodes;  // when not empty, no other node is quantized
  bool quantize_bias = true;
  bool int32_bias = false;
  bool int16_bias = false;

  bool weight_pairs = false;     // Q and DQ on weights instead of stored integers
  bool dedicated_pairs = false;  // one Q/DQ pair for each reader
  bool dual_pairs = false;
  bool contrib_domain = false;  // Q/DQ of com.microsoft
  bool keep_removable_activations = false;
  bool fold_relu = false;

  absl::flat_hash_set<std::string>
      fused_types;  // activations that form one operation with their producer
  DpuSimulation simulation;
  bool align = false;
  Alignment alignment;
  bool clip_to_relu = false;
  bool bf16_to_cast = false;
  bool bf16_clip = false;
  bool bf16_weights_only = false;

  // What differs silently in Quark and is said here; for log and report.
  std::vector<std::string> notes;
};

// `has_overrides`: some tensor has a type of its own. `op_types` are those of the user's model
// (for QuantizeAllOpTypes). CONFIG_INVALID when the combination is impossible.
absl::StatusOr<Settings> Resolve(const QuantizeConfig& config, bool has_overrides,
                                 const std::vector<std::string>& op_types, int64_t opset);

// The NPU-CNN path is wanted: EnableNPUCnn, else where both sides have power-of-two scales.
bool AsksForNpu(const QuantizeConfig& config);

// False when no parameter rests on observed ranges: they are found at run time, or the activations
// are bfloat16 or float16.
bool NeedsCalibration(const QuantizeConfig& config);

// Operator types that the paths quantize by themselves; `npu` adds those of NPU-CNN and extended.
const absl::flat_hash_set<std::string>& QuantizableTypes(bool npu);

}  // namespace gq::quantize
