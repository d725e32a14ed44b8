// One way to win accuracy back without more bits.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/quantize/quantize.h"
#include "common/quantize/recover/staged_run.h"

namespace gq::quantize {

// What the passes learn from. `float_model` and the samples stay as they are throughout.
struct RecoveryData {
  const graph::Model& float_model;
  const std::vector<runtime::InputSpec>& inputs;
  const std::vector<Sample>& samples;  // to fit on; the gain is measured on others
  const ModelOrigin* origin;           // null where names are those of float_model
  base::Reporter& reporter;
};

// Where recovery stands. A pass changes the quantized model itself, or what it is made from; then
// it sets `stale` and the model is made anew from the same calibration.
struct RecoveryState {
  graph::Model source;  // the float model that is quantized: RecoveryData::float_model, edited
  QuantizeConfig config;
  calibrate::CalibrationTable table;
  QuantizeResult result;
  bool stale = false;
};

// Stateless; one instance serves every quantization.
class RecoveryPass {
 public:
  virtual ~RecoveryPass() = default;

  // Name in --recover, in the report and in log lines: lower case with hyphens.
  virtual std::string_view name() const = 0;
  // Returns how much was changed (layers, tensors or nodes); 0 leaves the state as it was.
  virtual absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const = 0;
};

// All passes in the order in which they run.
std::span<const RecoveryPass* const> RecoveryPasses();

}  // namespace gq::quantize
