// How far each quantized tensor is from what it stands for in the float model.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

// The list `layer_errors` of the report: `tensor`, `op`, `class` (activation or weight), `snr_db`,
// `max_abs`, worst first. Activations are compared on at most `samples` samples in one pass of each
// model, that pass holding one sample; weights by their values. Empty for a candidate without Q/DQ.
// Errors of calibrate::CompareTensors.
absl::StatusOr<nlohmann::json> LayerErrors(const graph::Model& reference,
                                           const graph::Model& candidate, runtime::DataSet& data,
                                           int64_t samples, base::Reporter& reporter);

// For `analyze` with a float model beside the quantized one: loads both and adds `layer_errors` to
// the report. Errors of LoadStatic, DataSet and LayerErrors; NOT_QUANTIZED.
absl::Status AddLayerErrors(const JobInputs& inputs, StepLog& log, nlohmann::json& report);

}  // namespace gq::worker
