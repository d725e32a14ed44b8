// Layers of a quantized model in a higher precision, all else as it was.
#pragma once

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/quantize/quantize.h"
#include "common/runtime/data_set.h"

namespace gq::explore {

// Puts the layers of `promotion` into its precision, in `config`. FLOAT excludes them.
void Promote(const quantize::Promotion& promotion, quantize::QuantizeConfig* config);

// `start` with the layers of `promotion` in its precision. `source` and `source_config` are what
// the integers of `start` stand for (RecoverySource); the scales, integers and biases of `start`
// stay. Deterministic. Errors as Quantize's.
absl::StatusOr<quantize::QuantizeResult> QuantizePromoted(
    const graph::Model& start, const graph::Model& source,
    const quantize::QuantizeConfig& source_config, const quantize::Promotion& promotion,
    runtime::DataSet& calibration, base::Reporter& reporter,
    const quantize::QuantizeInputs& inputs);

}  // namespace gq::explore
