// Types and shapes of the tensors that quantization adds.
#pragma once

#include "absl/status/status.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// Sets value_info for every node output: those of the float model are known, inserted nodes follow
// from their inputs (Q/DQ and Cast keep the shape), the rest from shape inference. INTERNAL when a
// tensor stays unknown.
absl::Status CompleteValueInfo(QuantizeContext& context);

}  // namespace gq::quantize
