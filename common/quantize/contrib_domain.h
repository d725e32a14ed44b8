// Integer pairs of the extended path in the form that stock runtimes have.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// com.amd.quark's ExtendedQuantizeLinear and ExtendedDequantizeLinear with an integer zero point
// become com.microsoft's QuantizeLinear and DequantizeLinear (int32: DequantizeLinear alone, with
// zero point 0).
class UseContribDomain : public QuantizePass {
 public:
  std::string_view name() const override { return "com.microsoft pairs"; }
  std::string_view summary() const override {
    return "Q/DQ pairs move to the domain com.microsoft";
  }
  bool IsOn(const Settings& settings) const override { return settings.path == Path::kExtended; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
