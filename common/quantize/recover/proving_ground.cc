#include "common/quantize/recover/proving_ground.h"

#include "common/base/status.h"

namespace gq::quantize {
namespace {

// The same outputs on further samples.
absl::Status AddSamples(const OutputErrors& more, OutputErrors* errors) {
  if (errors->empty()) {
    *errors = more;
    return absl::OkStatus();
  }
  if (errors->size() != more.size()) {
    return base::MakeError(base::Reason::kModelUnsupported,
                           "outputs that are zero on some of the samples cannot be judged");
  }
  for (size_t i = 0; i < more.size(); ++i) {
    OutputError& error = (*errors)[i];
    error.signal.insert(error.signal.end(), more[i].signal.begin(), more[i].signal.end());
    error.noise.insert(error.noise.end(), more[i].noise.begin(), more[i].noise.end());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProvingGround> ProvingGround::Create(const graph::Model& float_model,
                                                    std::vector<SampleFold> folds, int threads) {
  ProvingGround ground;
  size_t all = 0;
  for (const SampleFold& fold : folds) all += fold.held_out.size();
  for (SampleFold& fold : folds) {
    const size_t beside = all - fold.held_out.size();
    GQ_ASSIGN_OR_RETURN(HeldOut held_out,
                        HeldOut::Create(float_model, std::move(fold.held_out), threads, beside));
    ground.folds_.emplace_back(std::move(fold.fit), std::move(held_out));
  }
  return ground;
}

absl::StatusOr<OutputErrors> ProvingGround::Measure(const graph::Model& model) const {
  OutputErrors all;
  for (const auto& [fit, held_out] : folds_) {
    GQ_ASSIGN_OR_RETURN(const OutputErrors errors, held_out.Measure(model));
    GQ_RETURN_IF_ERROR(AddSamples(errors, &all));
  }
  return all;
}

absl::StatusOr<OutputErrors> ProvingGround::MeasureFitted(const Fit& fit,
                                                          const graph::Model* first) const {
  OutputErrors all;
  for (const auto& [samples, held_out] : folds_) {
    absl::StatusOr<OutputErrors> errors;
    if (first != nullptr && all.empty()) {
      errors = held_out.Measure(*first);
    } else {
      GQ_ASSIGN_OR_RETURN(const graph::Model model, fit(samples));
      errors = held_out.Measure(model);
    }
    if (!errors.ok()) return errors;
    GQ_RETURN_IF_ERROR(AddSamples(*errors, &all));
  }
  return all;
}

size_t ProvingGround::samples() const {
  size_t count = 0;
  for (const auto& [fit, held_out] : folds_) count += held_out.size();
  return count;
}

}  // namespace gq::quantize
