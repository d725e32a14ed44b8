#include "common/quantize/recover/wide_bias.h"

#include "common/base/status.h"
#include "common/quantize/recover/layer.h"
#include "common/quantize/settings.h"

namespace gq::quantize {
namespace {

bool IsInt8(const graph::Model& model, const std::string& tensor) {
  const onnx::TensorProto* initializer = model.FindInitializer(tensor);
  return initializer != nullptr && initializer->data_type() == onnx::TensorProto::INT8;
}

}  // namespace

absl::StatusOr<int> WideBias::Run(const RecoveryData& data, RecoveryState& state) const {
  if (static_cast<size_t>(data.variant) >= data.bias_bits.size()) return 0;
  ExtraOptions& options = state.config.options;
  if (!AsksForNpu(state.config) || options.int32_bias.value_or(false) ||
      options.int16_bias.value_or(false)) {
    return 0;
  }
  GQ_ASSIGN_OR_RETURN(const auto layers, FindLayers(state.source, state.result.model));
  int changed = 0;
  for (const Layer& layer : layers) {
    changed += !layer.bias.empty() && IsInt8(state.result.model, layer.bias) ? 1 : 0;
  }
  if (changed == 0) return 0;
  (data.bias_bits[data.variant] == 16 ? options.int16_bias : options.int32_bias) = true;
  state.stale = true;
  return changed;
}

}  // namespace gq::quantize
