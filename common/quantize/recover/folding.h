// Fewer places where an activation is rounded, by rewriting the float model.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "common/graph/model.h"
#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// Every activation between two operators is rounded to int8, so a function that is written as five
// operators is rounded five times. For power-of-two scales only.
class FoldActivations : public RecoveryPass {
 public:
  std::string_view name() const override { return "folding"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  bool JudgedBehindRounding() const override { return true; }
};

// A hard swish or hard sigmoid of Add 3, Clip 0..6 and a division by 6 becomes a HardSigmoid (the
// NPU has one with alpha 1/6 and beta 1/2), and the Mul of a hard swish. The last node keeps its
// name and output. Returns how many; nodes named in `kept` are not touched.
int FuseHardSwish(const absl::flat_hash_set<std::string>& kept, graph::Model* model);

// A Mul or Div by one number goes into constants: weights or constants that read its result, else
// weights and bias of the layer before it, through operators that a common factor passes through.
// Returns how many nodes went; nodes named in `kept` stay.
int FoldFactors(const absl::flat_hash_set<std::string>& kept, graph::Model* model);

}  // namespace gq::quantize
