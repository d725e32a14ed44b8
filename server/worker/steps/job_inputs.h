// What a step works on: the request, and the files that belong to it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/flags.h"
#include "common/rpc/step_layout.h"
#include "gq/v1/job_service.pb.h"

namespace gq::worker {

struct JobInputs {
  gq::v1::JobSpec spec;
  std::filesystem::path model;
  // requantize: the quantized model as it was given; `model` is the stripped one then.
  std::optional<std::filesystem::path> quantized;
  std::optional<std::filesystem::path> reference;
  std::vector<std::filesystem::path> calibration;  // files and folders; empty: random data
  std::vector<std::filesystem::path> evaluation;   // empty: the calibration data
  std::optional<std::filesystem::path> labels;

  // Threads of the step: --threads, else all that this process may run on.
  int Threads() const;
};

// Of a command line. FILE_NOT_FOUND when a named file does not exist.
absl::StatusOr<JobInputs> InputsOfRequest(const job::JobRequest& request);

// Of a lease. Data files are linked below WORKDIR/tmp under the names that the user gave them,
// since a name may say which input a file is for.
absl::StatusOr<JobInputs> InputsOfLease(const gq::v1::Lease& lease, const rpc::StepFiles& files);

}  // namespace gq::worker
