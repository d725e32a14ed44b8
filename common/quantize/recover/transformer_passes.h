// What attention needs beside its weights.
#pragma once

#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// Constants near the lowest float that hide positions from a Softmax (attention masks) become as
// small as the Softmax needs: 10 below everything the other operand holds. The model's outputs stay
// what they are to float precision where each row has a position that is not hidden; the scale no
// longer has to reach the lowest float.
class MaskConstants : public RecoveryPass {
 public:
  std::string_view name() const override { return "masks"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
};

// In a model with attention the Adds of the residual stream and the normalizations stay in float:
// a few channels of the stream are a hundred times larger than the rest, so one scale leaves
// nothing of them. Compute layers are not touched.
class FloatResiduals : public RecoveryPass {
 public:
  std::string_view name() const override { return "residuals"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
};

}  // namespace gq::quantize
