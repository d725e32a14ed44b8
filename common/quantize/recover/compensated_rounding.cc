#include "common/quantize/recover/compensated_rounding.h"

#include "common/quantize/recover/layer_walk.h"

namespace gq::quantize {

absl::StatusOr<int> CompensatedRounding::Run(const RecoveryData& data, RecoveryState& state) const {
  return WalkLayers(data, state,
                    [&data](const Layer& layer, const LayerPositions& positions,
                            const LayerMoments& moments) -> std::optional<LayerFit> {
                      return FitLayer(layer, positions, moments,
                                      {.quick = data.quick, .threads = data.threads});
                    });
}

absl::StatusOr<int> BiasCorrection::Run(const RecoveryData& data, RecoveryState& state) const {
  const graph::Model before = state.result.model;
  return WalkLayers(data, state,
                    [&before](const Layer& layer, const LayerPositions& positions,
                              const LayerMoments& moments) -> std::optional<LayerFit> {
                      if (positions.bias_bits == 0) return std::nullopt;
                      auto weights = WeightIntegers(layer, before);
                      if (!weights.ok()) return std::nullopt;
                      return FitBias(layer, positions, moments, *std::move(weights));
                    });
}

}  // namespace gq::quantize
