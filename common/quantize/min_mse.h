// The power-of-two scale with the least squared error on given values.
#pragma once

#include <span>

#include "common/quantize/scale.h"

namespace gq::quantize {

// Tries the positions p-1 .. p+3 around the position p of the full range, in this order, and keeps
// the first with the strictly smallest sum of squared errors, so ties go to the larger scale (all
// zeros: scale 2). Errors are float32, summed pairwise in float32.
QuantParams MinMseParams(std::span<const float> values, ElementType type, bool symmetric,
                         bool reduce = false);

// Float scale with the least squared error among the central 99.9, 99.99, 99.999 and 99.9999
// percent of the values.
QuantParams PercentileMinMseParams(std::span<const float> values, ElementType type, bool symmetric);

// Sum in float32 by halves down to blocks of 128 with eight partial sums.
float PairwiseSum(std::span<const float> values);

}  // namespace gq::quantize
