// From a graph with Q/DQ nodes to a model that other tools load.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// Drops what nothing uses, sorts the nodes, sets the opset imports that the nodes need, producer
// and value_info. SANITY_CHECK_FAILED with the checker's message when the result is not valid ONNX.
absl::Status FinishModel(QuantizeContext& context);

}  // namespace gq::quantize
