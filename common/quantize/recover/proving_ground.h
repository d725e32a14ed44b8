// What a pass is worth on samples beside those that it was fitted to.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/recovery_samples.h"

namespace gq::quantize {

// Folds of samples: each is measured with a model that was fitted to the fold's other samples, and
// all figures are put together.
class ProvingGround {
 public:
  ProvingGround() = default;
  static absl::StatusOr<ProvingGround> Create(const graph::Model& float_model,
                                              std::vector<SampleFold> folds, int threads);

  // One model on all samples.
  absl::StatusOr<OutputErrors> Measure(const graph::Model& model) const;

  // What `fit` makes of the samples of a fold, on the fold's other samples. `first`, where it is
  // given, is what that is for the first fold.
  using Fit = std::function<absl::StatusOr<graph::Model>(const std::vector<Sample>&)>;
  absl::StatusOr<OutputErrors> MeasureFitted(const Fit& fit,
                                             const graph::Model* first = nullptr) const;

  size_t samples() const;  // that are measured on

 private:
  std::vector<std::pair<std::vector<Sample>, HeldOut>> folds_;
};

}  // namespace gq::quantize
