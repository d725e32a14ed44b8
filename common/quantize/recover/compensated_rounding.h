// Chooses the integers of weights and biases by the output of each layer.
#pragma once

#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// Layer by layer in graph order: inputs as the layers before, already rounded anew, deliver them;
// targets from the float model. The weights are the ridge least squares solution, rounded with
// compensation (rounding.h); the bias is what then is left in the mean, and the weights make up for
// its rounding. Weight and bias keep int8 (or what the bias has) and one scale; its position may
// move by one where the NPU's limits allow and the layer's error falls.
class CompensatedRounding : public RecoveryPass {
 public:
  std::string_view name() const override { return "rounding"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool FitsSamples() const override { return true; }
  bool FitsBiases() const override { return true; }
};

// The mean error of each layer's output goes into its bias; weights stay.
class BiasCorrection : public RecoveryPass {
 public:
  std::string_view name() const override { return "bias"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool FitsSamples() const override { return true; }
  bool FitsBiases() const override { return true; }
};

}  // namespace gq::quantize
