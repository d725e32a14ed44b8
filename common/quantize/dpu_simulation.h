// The NPU's arithmetic in float operators: averages, LeakyRelu slopes and HardSigmoid use constants
// of few bits, which the graph then says explicitly.
#pragma once

#include <cstdint>

#include "common/quantize/pass.h"

namespace gq::quantize {

// Ratio of the hardware's average over `height` x `width` elements to the true one: fixed values
// for 3x3, 5x5, 6x6, 7x7 and 14x14, 1 beyond 255, else MeanFactor of the number of elements.
double AveragePoolFactor(int64_t height, int64_t width);

// R * k / 2^n for the first n below 7 + ceil(log2 R) that brings k / 2^n closest to 1 / R.
double MeanFactor(int64_t elements);

// alpha in steps of 1/256, rounded half to even.
float LeakyReluSlope(float alpha);

// HardSigmoid's factor, 6 * 2731 / 16384.
inline constexpr double kHardSigmoidFactor = (2731.0 / 16384.0) / (1.0 / 6.0);

class SimulateDpu : public QuantizePass {
 public:
  std::string_view name() const override { return "NPU arithmetic"; }
  std::string_view summary() const override {
    return "constants and factors are those of the NPU's arithmetic";
  }
  bool IsOn(const Settings& settings) const override;
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
