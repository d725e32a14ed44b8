// The samples of a step, opened as the request says.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/job_inputs.h"

namespace gq::worker {

struct SampleData {
  std::unique_ptr<runtime::DataSet> samples;
  std::string source;  // `calibration`, `evaluation` or `random`
};

// The calibration data for the inputs of `model` (static shapes), random data with a warning when
// there is none. How files map to inputs goes to `reporter`.
absl::StatusOr<SampleData> OpenCalibrationData(const JobInputs& inputs, const graph::Model& model,
                                               base::Reporter& reporter);

// A sample to try a model on whose quantization rests on no data: that of the request, or random.
absl::StatusOr<SampleData> OpenTrialData(const JobInputs& inputs, const graph::Model& model);

// The evaluation data; the calibration data, which is said, when there is none.
absl::StatusOr<SampleData> OpenEvaluationData(const JobInputs& inputs, const graph::Model& model,
                                              base::Reporter& reporter);

}  // namespace gq::worker
