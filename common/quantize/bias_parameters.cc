#include "common/quantize/bias_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gq::quantize {

double LeastWeightScale(float bias, float input_scale) {
  constexpr double kMargin = 1.0001;
  const double magnitude = std::fabs(static_cast<double>(bias));
  const double input = std::fabs(static_cast<double>(input_scale));
  if (input == 0) return 0;
  return kMargin * magnitude / std::numeric_limits<int32_t>::max() / input;
}

Int32Bias QuantizeBias(std::span<const float> values, std::span<const QuantParams> input,
                       std::span<const QuantParams> weight, float beta) {
  constexpr double kMin = std::numeric_limits<int32_t>::min();
  constexpr double kMax = std::numeric_limits<int32_t>::max();
  const bool silent = beta == 0;
  if (silent) beta = 1;

  Int32Bias bias;
  const size_t channels = std::max(input.size(), weight.size());
  for (size_t i = 0; i < channels; ++i) {
    const float input_scale = input[input.size() == 1 ? 0 : i].scale;
    const float weight_scale = weight[weight.size() == 1 ? 0 : i].scale;
    bias.scales.push_back(input_scale * weight_scale * beta);
  }
  // Values lie along the channels in their last dimension.
  for (size_t i = 0; i < values.size(); ++i) {
    const double scale = bias.scales[bias.scales.size() == 1 ? 0 : i % bias.scales.size()];
    const double steps = std::nearbyint((silent ? 0.0 : static_cast<double>(values[i])) / scale);
    bias.saturated |= steps < kMin || steps > kMax;
    bias.values.push_back(std::isnan(steps) ? 0
                                            : static_cast<int32_t>(std::clamp(steps, kMin, kMax)));
  }
  return bias;
}

}  // namespace gq::quantize
