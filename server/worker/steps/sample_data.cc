#include "server/worker/steps/sample_data.h"

#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::worker {
namespace {

using base::StrCat;

constexpr uint64_t kDefaultSeed = 42;

absl::StatusOr<SampleData> Open(const JobInputs& inputs, const graph::Model& model,
                                const std::vector<std::filesystem::path>& paths, std::string source,
                                std::string_view without, base::Reporter& reporter) {
  GQ_ASSIGN_OR_RETURN(const std::vector<runtime::InputSpec> specs, runtime::InputSpecs(model));
  runtime::DataSetOptions options;
  options.num_samples = inputs.spec.num_samples();
  options.seed = inputs.spec.has_seed() ? static_cast<uint64_t>(inputs.spec.seed()) : kDefaultSeed;
  options.allow_nonfinite = inputs.spec.allow_nonfinite();
  SampleData data;
  if (paths.empty()) {
    GQ_ASSIGN_OR_RETURN(data.samples, runtime::DataSet::Random(specs, options));
    data.source = "random";
    reporter.Warn("Data", StrCat("no ", source, " data: ", data.samples->size(),
                                 " random samples (seed ", options.seed, ") take its place, so ",
                                 without, " little about real use; give --", source, "-data"));
  } else {
    GQ_ASSIGN_OR_RETURN(data.samples, runtime::DataSet::Open(paths, specs, options));
    data.source = std::move(source);
    reporter.Info("Data", StrCat(data.samples->size(), " ", data.source, " samples"));
  }
  for (const std::string& line : data.samples->description()) reporter.Info("Data", line);
  for (const std::string& line : data.samples->warnings()) reporter.Warn("Data", line);
  return data;
}

}  // namespace

absl::StatusOr<SampleData> OpenCalibrationData(const JobInputs& inputs, const graph::Model& model,
                                               base::Reporter& reporter) {
  return Open(inputs, model, inputs.calibration, "calibration", "ranges and accuracy say",
              reporter);
}

absl::StatusOr<SampleData> OpenTrialData(const JobInputs& inputs, const graph::Model& model) {
  base::NullReporter quiet;
  return OpenCalibrationData(inputs, model, quiet);
}

absl::StatusOr<SampleData> OpenEvaluationData(const JobInputs& inputs, const graph::Model& model,
                                              base::Reporter& reporter) {
  if (!inputs.evaluation.empty()) {
    return Open(inputs, model, inputs.evaluation, "evaluation", "", reporter);
  }
  if (inputs.calibration.empty()) {
    return Open(inputs, model, {}, "evaluation", "the accuracy says", reporter);
  }
  reporter.Info("Data", "no evaluation data: the calibration data is used for it");
  return OpenCalibrationData(inputs, model, reporter);
}

}  // namespace gq::worker
