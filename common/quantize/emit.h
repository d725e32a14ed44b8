// From a graph with Q/DQ nodes to a model that other tools load.
#pragma once

#include "absl/status/status.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// Drops what nothing uses, lets equal constants share their data, sorts the nodes, sets the opset
// imports that the nodes need, producer, metadata (gq_version, gq_config_digest, and
// kFloatPrecisionKey of reduced_precision.h where the compiler converts what is float) and the
// static type and shape of every tensor.
absl::Status FinishModel(QuantizeContext& context);

}  // namespace gq::quantize
