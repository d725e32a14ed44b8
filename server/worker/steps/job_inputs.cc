#include "server/worker/steps/job_inputs.h"

#include <sched.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

absl::StatusOr<fs::path> Existing(const std::string& path, std::string_view flag) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return MakeError(Reason::kFileNotFound, StrCat(path, ": no such file (", flag, ")"),
                     StrCat("check the path after ", flag));
  }
  return fs::path(path);
}

absl::StatusOr<std::vector<fs::path>> Existing(const std::vector<std::string>& paths,
                                               std::string_view flag) {
  std::vector<fs::path> found;
  for (const std::string& path : paths) {
    GQ_ASSIGN_OR_RETURN(fs::path existing, Existing(path, flag));
    found.push_back(std::move(existing));
  }
  return found;
}

}  // namespace

int JobInputs::Threads() const {
  if (spec.has_threads()) return spec.threads();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

absl::StatusOr<JobInputs> InputsOfRequest(const job::JobRequest& request) {
  const job::LocalOptions& local = request.local;
  JobInputs inputs;
  inputs.spec = request.spec;
  GQ_ASSIGN_OR_RETURN(inputs.model, Existing(local.model, "--model"));
  if (!local.reference.empty()) {
    GQ_ASSIGN_OR_RETURN(inputs.reference, Existing(local.reference, "--reference"));
  }
  GQ_ASSIGN_OR_RETURN(inputs.calibration, Existing(local.calibration_data, "--calibration-data"));
  GQ_ASSIGN_OR_RETURN(inputs.evaluation, Existing(local.evaluation_data, "--evaluation-data"));
  if (!local.labels.empty()) {
    GQ_ASSIGN_OR_RETURN(inputs.labels, Existing(local.labels, "--labels"));
  }
  return inputs;
}

absl::StatusOr<JobInputs> InputsOfLease(const gq::v1::Lease& lease, const rpc::StepFiles& files) {
  JobInputs inputs;
  inputs.spec = lease.spec();
  inputs.model = files.model();
  inputs.reference = files.reference();
  inputs.labels = files.labels();
  GQ_ASSIGN_OR_RETURN(inputs.calibration, files.NamedCalibration());
  GQ_ASSIGN_OR_RETURN(inputs.evaluation, files.NamedEvaluation());
  return inputs;
}

}  // namespace gq::worker
