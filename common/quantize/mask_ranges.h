// Ranges of attention masks: values near the lowest float that only have to vanish in a Softmax.
#pragma once

#include "common/quantize/context.h"

namespace gq::quantize {

// Where an Add of scores and a mask, or a Where that puts a very negative constant among scores,
// leads into a Softmax, the sum uses [scores' smallest - 16, scores' largest] and the mask
// [-(scores' width + 16), 0], as does the constant from which a Mul or a Where makes the mask. A
// mask is -1000 or lower and ten times lower than any score. What lies lower saturates, and
// exp(-16) is less than a millionth. The observed range would leave the scores themselves not a
// single step. Changes context.observed, also for such constants, which else have no entry; returns
// the number of such places. Not with Compatibility::kQuark.
int LimitMaskRanges(QuantizeContext& context);

}  // namespace gq::quantize
