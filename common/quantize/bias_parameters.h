// The int32 form of a bias.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/quantize/scale.h"

namespace gq::quantize {

struct Int32Bias {
  std::vector<int32_t> values;
  std::vector<float> scales;  // one, or one a channel
  bool saturated = false;     // some value did not fit
};

// scale = input * weight * beta in float32; value = bias / scale in double, rounded half to even,
// held within int32. beta 0 gives zeros.
Int32Bias QuantizeBias(std::span<const float> values, std::span<const QuantParams> input,
                       std::span<const QuantParams> weight, float beta);

// The smallest weight scale with which a bias value fits into int32 at `input_scale`.
double LeastWeightScale(float bias, float input_scale);

}  // namespace gq::quantize
