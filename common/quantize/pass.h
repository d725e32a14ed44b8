// One step of a quantization behind the insertion of Q/DQ nodes.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// Stateless; one instance serves every quantization.
class QuantizePass {
 public:
  virtual ~QuantizePass() = default;

  // Name in the report and in log lines.
  virtual std::string_view name() const = 0;
  // What it does, in one sentence for the report.
  virtual std::string_view summary() const = 0;
  // False when the settings leave this pass out.
  virtual bool IsOn(const Settings& settings) const = 0;
  // Changes context.model. Returns how much was changed (nodes, initializers or scales).
  virtual absl::StatusOr<int> Run(QuantizeContext& context) const = 0;
};

// All passes in the order in which they run.
std::span<const QuantizePass* const> QuantizePasses();

// Runs those that are on and records them in context.passes.
absl::Status RunPasses(QuantizeContext& context);

}  // namespace gq::quantize
