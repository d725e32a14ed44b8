// How much of the observed range an activation's integers cover.
#pragma once

#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// For int8 activations with float scales and min/max ranges: of the whole range, the percentiles
// 99.999, 99.99 and 99.9, each with both ends on their own, and the one of them with the least
// squared error on each tensor, what makes the quantized model differ least from the float one. One
// calibration serves all; the method of the configuration becomes the
// one that was chosen.
class RangeChoice : public RecoveryPass {
 public:
  std::string_view name() const override { return "ranges"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool FitsSamples() const override { return true; }
};

}  // namespace gq::quantize
