// What a quantized model loses on samples that no pass has fitted.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/staged_run.h"

namespace gq::quantize {

// Signal to noise of each float output in dB against the float model, pooled over the samples
// (10 log10(sum r^2 / sum (r-a)^2)), held within -20 .. 80.
class HeldOut {
 public:
  // Runs the float model over the samples and keeps its outputs.
  static absl::StatusOr<HeldOut> Create(const graph::Model& float_model,
                                        std::vector<Sample> samples);

  absl::StatusOr<std::vector<double>> Measure(const graph::Model& candidate) const;

 private:
  std::vector<Sample> samples_;
  std::vector<std::vector<runtime::Tensor>> references_;  // by sample
};

double Mean(const std::vector<double>& decibels);

}  // namespace gq::quantize
