// The step Dequantize: from a quantized model to the float one that it came from, as far as that
// can be had back; and what a new quantization is compared with.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

struct DequantizeResult {
  graph::Model stripped;
  nlohmann::json report;  // fragment `dequantize`
};

// Strips the model of the request and writes it to `output` in the layout of the given file. Then
// both are run on the evaluation data (the calibration data or random data without it, at most 32
// samples) and compared; where the quantized model does not run, the report says why. Errors:
// NOT_QUANTIZED, those of LoadModel, Dequantize and SaveModel, and of the data when it was given.
absl::StatusOr<DequantizeResult> RunDequantize(const JobInputs& inputs,
                                               const std::filesystem::path& output, StepLog& log);

// RunEvaluate for a model that was quantized anew. Measured against the reference of the request,
// or `stripped_float` without one; then the model as it was given is measured in the same way.
// Adds `requantize` to the fragment: reference (`stripped` or `given`), old and new figures of each
// output with their differences, `improved` and the reason in words.
absl::StatusOr<EvaluateResult> RunRequantizedEvaluate(const JobInputs& inputs,
                                                      const graph::Model& stripped_float,
                                                      const graph::Model& candidate,
                                                      graph::TaskType task, StepLog& log);

// The same inputs for the steps behind Dequantize: they work on the stripped model, and know the
// given one as `quantized`.
JobInputs InputsAfterStrip(JobInputs inputs, const std::filesystem::path& stripped);

}  // namespace gq::worker
