// Equal parameters on both sides of operators that only move data, on the extended path.
#pragma once

#include "common/quantize/pass.h"

namespace gq::quantize {

// Concat, Pad, Transpose, Reshape: the inputs take over scale and zero point of the output.
// MaxPool, AveragePool, GlobalAveragePool, Slice: the outputs those of the input. Then an int32
// bias whose scale is not input * weight any more is brought back to it. Each has its own switch;
// rounds are repeated while something changed. A neighbour of another type is left alone; Quark
// overwrites its parameters.
class AlignExtended : public QuantizePass {
 public:
  std::string_view name() const override { return "alignment"; }
  std::string_view summary() const override { return "scales that belong together become equal"; }
  bool IsOn(const Settings& settings) const override {
    return settings.align && settings.path == Path::kExtended;
  }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
