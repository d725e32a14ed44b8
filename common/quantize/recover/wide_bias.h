// Biases of more than eight bits.
#pragma once

#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// On the NPU path a bias is int8 with a scale of its own, which is coarse beside the accumulator it
// is added to. Here all become int32 in units of input scale times weight scale (Quark's
// Int32Bias), or int16 in the same units (Int16Bias; opset 21), whichever of the widths that the
// device takes gains more. Asks for 0.5 dB. Does nothing where biases are wide already.
class WideBias : public RecoveryPass {
 public:
  std::string_view name() const override { return "wide-bias"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool JudgedBehindRounding() const override { return true; }
  int variants() const override { return 2; }
  double least_gain() const override { return 0.5; }
};

}  // namespace gq::quantize
