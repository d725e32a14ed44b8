#include "common/quantize/preparation.h"

namespace gq::quantize {
namespace {

bool IsReduced(const TensorSpec& spec) { return IsReducedFloat(spec.type); }

}  // namespace

graph::OptimizeOptions PreparationFor(const QuantizeConfig& config) {
  const ExtraOptions& options = config.options;
  graph::OptimizeOptions prepared;
  prepared.optimize = options.optimize_model.value_or(true);
  prepared.simplify = options.simplify_model.value_or(true);
  const bool npu =
      options.enable_npu_cnn.value_or(config.activation.scale_type == ScaleType::kPowerOfTwo &&
                                      config.weight.scale_type == ScaleType::kPowerOfTwo);
  const bool casts =
      options.bf16_qdq_to_cast.value_or(false) || options.enable_vaiml_bf16.value_or(false);
  const bool extended = IsReduced(config.activation) || IsReduced(config.weight);
  prepared.npu = npu || (extended && !casts);
  prepared.split_to_slice = options.convert_split_to_slice.value_or(prepared.npu);
  prepared.gemm = config.compatibility == Compatibility::kQuark;
  return prepared;
}

}  // namespace gq::quantize
