// What a recovered model was made from.
#pragma once

#include "common/graph/model.h"
#include "common/quantize/config.h"
#include "common/quantize/recover/recover.h"

namespace gq::quantize {

// The float model and the configuration as the recovery passes left them: the same function, but
// with constants folded or equalized and further nodes in float. The integers of the result stand
// for these constants.
struct RecoverySource {
  graph::Model model;
  QuantizeConfig config;
};

// As QuantizeWithRecovery, and says what the result was made from.
absl::StatusOr<QuantizeResult> QuantizeWithRecovery(
    const graph::Model& float_model, const QuantizeConfig& config, const RecoverOptions& options,
    runtime::DataSet& data, base::Reporter& reporter, const QuantizeInputs& inputs,
    RecoverySource* source);

}  // namespace gq::quantize
