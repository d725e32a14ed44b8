// The step Analyze: what a model is, without changing it.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

// Fragment `analyze` of the report: state, size, structure, task, and what a quantization would do
// (strategy, for a float model). Dynamic shapes are no error here; they are listed.
absl::StatusOr<nlohmann::json> RunAnalyze(const JobInputs& inputs, StepLog& log);

}  // namespace gq::worker
