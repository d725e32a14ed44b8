// Accuracy recovery: the quantization again, with passes that choose its parameters by what comes
// out of the model (spec: engine, "Accuracy recovery without higher precision").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/quantize.h"

namespace gq::quantize {

struct RecoverOptions {
  // Names of passes that may run; they run in the order of RecoveryPasses().
  std::vector<std::string> passes;
  // At most this many samples are used: five eighths to fit on, the rest to measure gains.
  int64_t max_samples = 32;
  // Bytes that the tensors between two layers may take; fewer samples are used when they are large.
  int64_t max_bytes = int64_t{1} << 30;
  // Widths of a bias beside int8 that the device takes (16, 32), the one to prefer first.
  std::vector<int> bias_bits = {32};
  // Threads of the work; the result does not depend on them.
  int threads = 1;
};

// "none" (no passes), "auto" (all) or names separated by commas. INVALID_FLAG with the names there
// are.
absl::StatusOr<RecoverOptions> ParseRecover(std::string_view text);

// As Quantize, then the passes. Each is kept only when, on calibration samples that no pass fits
// on, it raises the mean signal-to-noise ratio over the outputs and no output loses against the
// model without recovery by more than chance explains. The report gets "recovery": {"before_db",
// "after_db", "outputs_before_db", "outputs_db", "fit_samples", "held_out_samples", "passes":
// [{"name", "changed", "gain_db", "standard_error_db", "outputs_gain_db", "kept", "seconds"}],
// "seconds"}.
// Deterministic. Errors as Quantize's; a pass that fails is left out with a warning.
absl::StatusOr<QuantizeResult> QuantizeWithRecovery(
    const graph::Model& float_model, const QuantizeConfig& config, const RecoverOptions& options,
    runtime::DataSet& data, base::Reporter& reporter, const QuantizeInputs& inputs = {});

}  // namespace gq::quantize
