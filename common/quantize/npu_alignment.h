// Brings positions into the relations that the NPU's shifters can realize.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// With ip, op, wp, bp the positions of input, output, weight and bias:
//   Concat                          all ip = op := smallest
//   MaxPool, (Global)AveragePool    ip = op := smaller; likewise Pad, Slice
//   Add, Sub    shift read          max ip - min ip <= 7, the larger is lowered
//   Add         shift write         -7 <= min ip - op <= 25, op moves
//   Mul         shift write         0 <= sum ip - op <= 32, op moves
//   Conv, Gemm  shift cut           0 <= wp + ip - op <= 16, wp moves
//   Conv, Gemm  shift bias          min(0, cut - 16) <= wp + ip - bp <= 15, bp moves; above 15
//                                   wp does where op <= bp + 4 (Quark clips the bias)
//                                   (lower bound 0 before a LeakyRelu)
//   HardSigmoid                     0 <= ip <= 15, op >= 7, 14 + ip - op >= 0
//   Mul of a swish                  0 <= ip0 + ip1 - op <= 15, op moves
// A rule whose positions are not all there is passed over. A constant of zeros has no say in its
// Concat's position, it only takes it over (in Quark its scale of 1 counts). Rounds are repeated
// while something moved (the shift write of Mul alone asks for no further round), at most
// Alignment::max_rounds.
class AlignForNpu : public QuantizePass {
 public:
  std::string_view name() const override { return "NPU alignment"; }
  std::string_view summary() const override {
    return "positions are brought into the reach of the NPU's shifters";
  }
  bool IsOn(const Settings& settings) const override {
    return settings.align && settings.path == Path::kNpuCnn;
  }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

// Computes the integers of weights and biases again whose scale alignment has moved, so that they
// fit the new scale, and scale and integers of an int32 bias whose input or weight has moved. Quark
// leaves them, which multiplies the weight by a power of two.
class RequantizeMoved : public QuantizePass {
 public:
  std::string_view name() const override { return "requantize moved weights"; }
  std::string_view summary() const override {
    return "integers of moved scales are computed again from the float weights";
  }
  bool IsOn(const Settings& settings) const override { return settings.align && !settings.quark; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
