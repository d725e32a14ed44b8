// Biases in 16 bits.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// The int32 biases of compute and normalization nodes become int16, held within its range; the
// model is brought to opset 21, where DequantizeLinear takes int16.
class UseInt16Bias : public QuantizePass {
 public:
  std::string_view name() const override { return "int16 bias"; }
  std::string_view summary() const override { return "biases are stored as int16"; }
  bool IsOn(const Settings& settings) const override { return settings.int16_bias; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
