// What the graph optimizer shall do to a float model for a configuration.
#pragma once

#include "common/graph/optimize.h"
#include "common/quantize/config.h"

namespace gq::quantize {

// Quark's preprocessing as the configuration selects it (SimplifyModel, OptimizeModel and the
// conversions that the NPU-CNN and extended paths switch on); input shapes are left to the caller.
graph::OptimizeOptions PreparationFor(const QuantizeConfig& config);

}  // namespace gq::quantize
