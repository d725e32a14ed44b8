// What a quantized model loses on samples that no pass has fitted.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/staged_run.h"

namespace gq::quantize {

// Signal to noise of each float output in dB against the float model, pooled over the samples
// (10 log10(sum r^2 / sum (r-a)^2)), held within -20 .. 60. Where an output holds few rows of a
// Softmax, what the Softmax reads is compared instead: few probabilities near 0 and 1 say by chance
// alone whether a model got better.
class HeldOut {
 public:
  // Runs the float model over the samples and keeps its outputs.
  static absl::StatusOr<HeldOut> Create(const graph::Model& float_model,
                                        std::vector<Sample> samples);

  absl::StatusOr<std::vector<double>> Measure(const graph::Model& candidate) const;

 private:
  struct Place {
    std::string output;   // of the model
    std::string softmax;  // node that is compared at its input; empty for the output itself
  };

  static absl::StatusOr<graph::Model> Exposing(const graph::Model& model,
                                               const std::vector<Place>& places);

  std::vector<Place> places_;
  std::vector<Sample> samples_;
  std::vector<std::vector<runtime::Tensor>> references_;  // by sample
};

double Mean(const std::vector<double>& decibels);

}  // namespace gq::quantize
