#include "server/api/from_job.h"

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/performance_target.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using gq::v1::Artifact;
using gq::v1::JobSpec;

const Artifact* Find(const std::vector<Artifact>& artifacts, std::string_view path) {
  for (const Artifact& artifact : artifacts) {
    if (artifact.path() == path) return &artifact;
  }
  return nullptr;
}

// The model that the job made, with its external data; false when it made none.
bool TakeModel(const std::vector<Artifact>& artifacts, gq::v1::ModelRef* model) {
  for (const char* name : {"model_quantized.onnx", "model_stripped.onnx"}) {
    const Artifact* const file = Find(artifacts, name);
    if (file == nullptr) continue;
    model->mutable_file()->set_name(name);
    *model->mutable_file()->mutable_digest() = file->digest();
    const std::string data_name = StrCat(name, ".data");
    if (const Artifact* const data = Find(artifacts, data_name)) {
      gq::v1::FileRef* const ref = model->add_external_data();
      ref->set_name(data_name);
      *ref->mutable_digest() = data->digest();
    }
    return true;
  }
  return false;
}

// Goals that the new job can measure as well.
void TakeTargets(const gq::v1::JobSpec& old, gq::v1::JobSpec* spec) {
  std::vector<std::string> kept;
  for (const std::string& target : old.target_performance()) {
    gq::v1::JobSpec one;
    one.set_kind(spec->kind());
    one.set_stage(spec->stage());
    one.add_target_performance(target);
    if (job::CheckPerformanceTargets(one).ok()) kept.push_back(target);
  }
  spec->mutable_target_performance()->Assign(kept.begin(), kept.end());
}

}  // namespace

absl::Status TakeFromJob(const gq::v1::Job& from, const std::vector<Artifact>& artifacts,
                         JobSpec* spec) {
  if (from.state() != gq::v1::JOB_STATE_SUCCEEDED) {
    return MakeError(
        Reason::kJobNotFinished,
        StrCat("job ", from.id(), " has not succeeded, so there is nothing to start ", "from"),
        StrCat("see 'gq jobs show ", from.id(), "'"));
  }
  const JobSpec& old = from.spec();
  if (!spec->has_model() && !TakeModel(artifacts, spec->mutable_model())) {
    return MakeError(Reason::kNotFound, StrCat("job ", from.id(), " has no model as its result"),
                     "start from a job that quantized or stripped a model");
  }
  const bool takes_reference =
      spec->kind() == gq::v1::JOB_KIND_REQUANTIZE || spec->kind() == gq::v1::JOB_KIND_EVALUATE;
  if (takes_reference && !spec->has_reference()) {
    if (old.has_reference()) {
      *spec->mutable_reference() = old.reference();
    } else if (old.kind() == gq::v1::JOB_KIND_FULL) {
      *spec->mutable_reference() = old.model();
    }
  }
  spec->set_from_job(from.id());
  if (spec->device().empty()) spec->set_device(old.device());
  if (spec->calibration_data().empty()) *spec->mutable_calibration_data() = old.calibration_data();
  if (spec->evaluation_data().empty()) {
    *spec->mutable_evaluation_data() = old.evaluation_data();
    if (!spec->has_labels() && old.has_labels()) *spec->mutable_labels() = old.labels();
  }
  if (!spec->has_num_samples() && old.has_num_samples()) spec->set_num_samples(old.num_samples());
  if (!spec->has_seed() && old.has_seed()) spec->set_seed(old.seed());
  if (!spec->has_atol() && old.has_atol()) spec->set_atol(old.atol());
  if (!spec->has_rtol() && old.has_rtol()) spec->set_rtol(old.rtol());
  if (spec->task().empty()) spec->set_task(old.task());
  if (spec->input_shape().empty()) *spec->mutable_input_shape() = old.input_shape();
  if (spec->target_accuracy().empty()) *spec->mutable_target_accuracy() = old.target_accuracy();
  if (spec->target_performance().empty()) TakeTargets(old, spec);
  return absl::OkStatus();
}

}  // namespace gq::server
