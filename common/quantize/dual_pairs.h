// A second Q/DQ pair where two precisions meet, so that all tensors of a node are of one type.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// Each node has a template pair: for a node named by an override the pair of its first tensor with
// a type of its own, for another node the pair of its first tensor without one; a node without any
// takes a neighbour's. Every other input or output pair of another type gets one of the template's
// type between itself and the node. Constants get none.
class AddDualPairs : public QuantizePass {
 public:
  std::string_view name() const override { return "dual pairs"; }
  std::string_view summary() const override {
    return "a second Q/DQ pair stands where two precisions meet";
  }
  bool IsOn(const Settings& settings) const override { return settings.dual_pairs; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
