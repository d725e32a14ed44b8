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
  int variant = 0;                 // which of a pass's variants to run
  bool quick = false;              // an estimate will do
  int threads = 1;                 // what a pass finds does not depend on it
  std::span<const int> bias_bits;  // widths of a bias beside int8 that the device takes
};

// Where recovery stands. A pass changes the quantized model itself, or what it is made from; then
// it sets `stale` and the model is made anew from the same calibration.
struct RecoveryState {
  // The float model that is quantized: RecoveryData::float_model, edited so that its outputs stay
  // what they are to float precision. Layers aim at its tensors.
  graph::Model source;
  QuantizeConfig config;
  calibrate::CalibrationTable table;
  QuantizeResult result;
  bool stale = false;
  bool rewritten =
      false;  // tensors of `source` hold other values than in RecoveryData::float_model
};

// Stateless; one instance serves every quantization.
class RecoveryPass {
 public:
  virtual ~RecoveryPass() = default;

  // Name in --recover, in the report and in log lines: lower case with hyphens.
  virtual std::string_view name() const = 0;
  // Returns how much was changed (layers, tensors or nodes); 0 leaves the state as it was.
  virtual absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const = 0;

  // True for a pass that gives the weights other things to do: what it is worth shows only behind
  // "rounding", so it is judged behind a quick run of it.
  virtual bool JudgedBehindRounding() const { return false; }
  // True for a pass that fits numbers to RecoveryData::samples, so that only samples beside them
  // tell what it is worth.
  virtual bool FitsSamples() const { return false; }
  // True for a pass that gives layers other biases than those of the source.
  virtual bool FitsBiases() const { return false; }
  // Ways in which the pass can run; the best one counts.
  virtual int variants() const { return 1; }
  // Decibels below which the pass is not worth what it costs.
  virtual double least_gain() const { return 0.05; }
};

// All passes in the order in which they run.
std::span<const RecoveryPass* const> RecoveryPasses();

}  // namespace gq::quantize
