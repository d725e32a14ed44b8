// Visits the layers of a quantized model in graph order with what they read and should write.
#pragma once

#include <functional>

#include "common/quantize/recover/layer_fit.h"
#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// `fit` sees one layer after the other: its moments over the samples of `data`, with inputs from
// the quantized model as it then is and targets from state.source. What it returns is written
// into state.result.model before the next layer is looked at; nullopt leaves the layer as it is.
// Returns how many were changed. One pass over the samples altogether.
using FitFunction = std::function<std::optional<LayerFit>(const Layer&, const LayerPositions&,
                                                          const LayerMoments&)>;
absl::StatusOr<int> WalkLayers(const RecoveryData& data, RecoveryState& state,
                               const FitFunction& fit);

// Integers of a layer's weight as they are in the model.
absl::StatusOr<std::vector<RowMatrix>> WeightIntegers(const Layer& layer,
                                                      const graph::Model& model);

}  // namespace gq::quantize
