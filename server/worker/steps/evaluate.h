// The step Evaluate: a candidate model against its reference.
#pragma once

#include "absl/status/statusor.h"
#include "common/accuracy/evaluate.h"
#include "common/graph/model.h"
#include "gq/v1/job_service.pb.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

struct EvaluateResult {
  accuracy::Evaluation evaluation;
  nlohmann::json report;  // fragment `evaluate`
};

// How a request wants models to be compared. TARGET_INVALID and those of reading the labels.
absl::StatusOr<accuracy::EvaluateOptions> EvaluateOptionsOf(const JobInputs& inputs,
                                                            graph::TaskType task);

// Both models have static shapes. Errors: TARGET_INVALID and those of DataSet and
// accuracy::Evaluate.
absl::StatusOr<EvaluateResult> RunEvaluate(const JobInputs& inputs, const graph::Model& reference,
                                           const graph::Model& candidate, graph::TaskType task,
                                           StepLog& log);

// The model of the request against its reference, both as they are in their files. FILE_NOT_FOUND
// when there is no reference; else as RunEvaluate and LoadStatic.
absl::StatusOr<EvaluateResult> EvaluateFiles(const JobInputs& inputs, StepLog& log);

// Reads everything about the goals of a request that can be wrong, before any work. TARGET_INVALID.
absl::Status CheckGoals(const gq::v1::JobSpec& spec);

// Says the verdict and, beside a target accuracy, what the default goal says.
void LogVerdict(const accuracy::Verdict& verdict, StepLog& log);

gq::v1::Verdict VerdictOf(const accuracy::Verdict& verdict);

}  // namespace gq::worker
