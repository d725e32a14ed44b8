// Jobs that start from an earlier one (`gq run --from JOB`).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "gq/v1/job_service.pb.h"

namespace gq::server {

// Fills what `spec` leaves open from a job that has succeeded: its result is the model, its
// original FP32 model (or its own reference) the reference; device, data, labels, samples, seed,
// shapes, task, tolerances and goals are its. `from_job` becomes its full id. JOB_NOT_FINISHED
// while it is not finished or has failed, NOT_FOUND when it has no model as a result.
absl::Status TakeFromJob(const gq::v1::Job& from, const std::vector<gq::v1::Artifact>& artifacts,
                         gq::v1::JobSpec* spec);

}  // namespace gq::server
