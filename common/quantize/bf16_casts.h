// bfloat16 and float16 pairs as Cast nodes, which every runtime has.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// Q with a bfloat16 or float16 zero point becomes a Cast to that type, DQ becomes Cast to FLOAT; a
// scale other than 1 becomes a Mul before (by 1 / scale) or behind it. Quark leaves float16 pairs,
// which no stock runtime has.
class UseBFloat16Casts : public QuantizePass {
 public:
  std::string_view name() const override { return "bfloat16 casts"; }
  bool IsOn(const Settings& settings) const override { return settings.bf16_to_cast; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

// Leaves the casts out and keeps the weights as float initializers with bfloat16 values
// (<weight>_bf16). The pair on a graph input stays.
class KeepRoundedWeights : public QuantizePass {
 public:
  std::string_view name() const override { return "bfloat16 weights"; }
  bool IsOn(const Settings& settings) const override { return settings.bf16_weights_only; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

// Clip to the finite range of bfloat16 before each activation's Q.
class ClipBeforeBFloat16 : public QuantizePass {
 public:
  std::string_view name() const override { return "bfloat16 clips"; }
  bool IsOn(const Settings& settings) const override { return settings.bf16_clip; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
