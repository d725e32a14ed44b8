// Puts quantize and dequantize nodes into the graph where the placement says so.
#pragma once

#include "absl/status/status.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// Activations: producer -> Q -> DQ -> readers; a graph output keeps its name on the DQ. Weights:
// stored integers -> DQ -> readers, or Q and DQ on the float initializer. With dedicated pairs each
// quantized reader gets a pair of its own; float nodes read what another float node makes without
// one, and through one what a quantized node makes. New nodes stand at the end of the graph in the
// order of the placement. Fills context.tensors.
absl::Status InsertQdq(QuantizeContext& context);

}  // namespace gq::quantize
