// Outlier channels of a transformer's dense layers.
#pragma once

#include <vector>

#include "common/quantize/recover/moments.h"
#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// A few channels of a residual stream are a hundred times larger than the rest, so one scale leaves
// nothing of the rest. Where a dense layer reads a float tensor or writes to a float Add, a Mul by
// powers of two, one a channel, makes the channels alike, and the weights (and bias) take the
// reciprocals (Xiao et al., "SmoothQuant", 2022): in float the model computes the same bit for bit.
// Whether and how strongly is chosen layer by layer by the error of its output. The Mul is in
// float, like the tensor beside it. For power-of-two scales only.
class SmoothChannels : public RecoveryPass {
 public:
  std::string_view name() const override { return "smooth"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool JudgedBehindRounding() const override { return true; }
};

// y = x W^T + b of one dense layer: rows of x are positions, W is outputs x inputs.
struct DenseProblem {
  FloatRows weight;
  Eigen::RowVectorXf bias;  // outputs
};

// Squared error of the layer's output relative to its power when x / divide, W, and y / multiply
// are int8 with the power-of-two scale of the least squared error each.
double SmoothedError(const FloatRows& x, const DenseProblem& layer,
                     const Eigen::RowVectorXf& divide, const Eigen::RowVectorXf& multiply);

// Powers of two near largest[c]^strength / weights[c]^(1 - strength), with a geometric mean of one
// before rounding. Channels of zeros count as the smallest of the others.
Eigen::RowVectorXf SmoothingFactors(const Eigen::RowVectorXf& largest,
                                    const Eigen::RowVectorXf& weights, double strength);

}  // namespace gq::quantize
