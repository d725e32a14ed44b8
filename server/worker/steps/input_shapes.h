// Fixed shapes for the inputs of a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "server/worker/steps/job_inputs.h"

namespace gq::worker {

// What --input-shape says, and for other inputs with open dimensions the shapes of the calibration
// (else evaluation) samples, each of which is said in the log. INVALID_FLAG for a flag that is no
// shape; else the errors of ShapesOfData.
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> InputShapes(const JobInputs& inputs,
                                                                        const graph::Model& model,
                                                                        base::Reporter& reporter);

}  // namespace gq::worker
