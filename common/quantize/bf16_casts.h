// bfloat16 and float16 pairs as Cast nodes, which every runtime has.
#pragma once

#include "common/graph/edits.h"
#include "common/graph/model.h"
#include "common/quantize/pass.h"

namespace gq::quantize {

// Writes every pair of com.amd.quark with a bfloat16 zero point, or with `float16_too` a float16
// one, as Cast nodes as UseBFloat16Casts says. `names` is the scope of the model's graph. Returns
// how many nodes were replaced.
int ReplacePairsByCasts(bool float16_too, graph::Model* model, graph::NameScope* names);

// Q with a bfloat16 or float16 zero point becomes a Cast to that type, DQ becomes Cast to FLOAT; a
// scale other than 1 becomes a Mul before (by 1 / scale) or behind it. Quark leaves float16 pairs,
// which no stock runtime has.
class UseBFloat16Casts : public QuantizePass {
 public:
  std::string_view name() const override { return "bfloat16 casts"; }
  std::string_view summary() const override {
    return "Q/DQ pairs of bfloat16 become Casts to bfloat16 and back";
  }
  bool IsOn(const Settings& settings) const override { return settings.bf16_to_cast; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

// Leaves the casts out and keeps the weights as float initializers with bfloat16 values
// (<weight>_bf16). The pair on a graph input stays.
class KeepRoundedWeights : public QuantizePass {
 public:
  std::string_view name() const override { return "bfloat16 weights"; }
  std::string_view summary() const override {
    return "weights of bfloat16 are stored rounded, without pairs";
  }
  bool IsOn(const Settings& settings) const override { return settings.bf16_weights_only; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

// Clip to the finite range of bfloat16 before each activation's Q.
class ClipBeforeBFloat16 : public QuantizePass {
 public:
  std::string_view name() const override { return "bfloat16 clips"; }
  std::string_view summary() const override {
    return "values beyond the largest bfloat16 are clipped before the rounding";
  }
  bool IsOn(const Settings& settings) const override { return settings.bf16_clip; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
