// Clip becomes Relu, which the NPU has.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// A selected Clip with constant bounds. Default: only where it changes no value that calibration
// saw, that is, lower bound 0 and an upper bound not below the largest value at the Clip's input.
// Quark: whenever the lower bound is 0 or more, whatever the upper bound.
class ConvertClipToRelu : public QuantizePass {
 public:
  std::string_view name() const override { return "Clip to Relu"; }
  std::string_view summary() const override {
    return "a Clip that cuts nothing above becomes a Relu";
  }
  bool IsOn(const Settings& settings) const override { return settings.clip_to_relu; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
