// The step Dry Run: what each precision would give, before anything is made.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

// Measures the float model, the same in bfloat16 throughout and the VINT8 model that Graph Quantize
// would make, all on the CPU, and says what to do next. Writes no file. Returns the fragment
// `dry_run` of the report: `candidates`, `recommendation`, `estimate`. Errors of ChooseStrategy,
// DataSet, Quantize and accuracy::Evaluate.
absl::StatusOr<nlohmann::json> RunDryRun(const JobInputs& inputs,
                                         const GraphOptimizeResult& optimized, StepLog& log);

}  // namespace gq::worker
