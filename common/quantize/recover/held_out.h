// What a quantized model loses on samples that no pass has fitted.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/staged_run.h"

namespace gq::quantize {

// What one float output lost against the float model, sample by sample.
struct OutputError {
  std::vector<double> signal;  // sum of r^2
  std::vector<double> noise;   // sum of (r - a)^2

  // Signal to noise pooled over the samples (10 log10(sum r^2 / sum (r-a)^2)), held within
  // -20 .. 60; without the sample `left_out`, if one is given.
  double Decibels(int left_out = -1) const;
};

using OutputErrors = std::vector<OutputError>;

// Where an output holds few rows of a Softmax, what the Softmax reads is compared instead: few
// probabilities near 0 and 1 say by chance alone whether a model got better.
class HeldOut {
 public:
  // Runs the float model over the samples and keeps its outputs. Where an output is so small that
  // the samples (`beside` others that are judged with them) give only a handful of numbers, blends
  // of samples are measured as well.
  static absl::StatusOr<HeldOut> Create(const graph::Model& float_model,
                                        std::vector<Sample> samples, int threads = 1,
                                        size_t beside = 0);

  absl::StatusOr<OutputErrors> Measure(const graph::Model& candidate) const;

  size_t size() const { return samples_.size(); }

 private:
  struct Place {
    std::string output;   // of the model
    std::string softmax;  // node that is compared at its input; empty for the output itself
  };

  static absl::StatusOr<graph::Model> Exposing(const graph::Model& model,
                                               const std::vector<Place>& places);

  int threads_ = 1;
  std::vector<Place> places_;
  std::vector<Sample> samples_;
  std::vector<std::vector<runtime::Tensor>> references_;  // by sample
};

std::vector<double> Decibels(const OutputErrors& errors);
double Mean(const OutputErrors& errors);  // of the decibels

// How much the mean of the decibels rose, and how far that is uncertain because of the choice of
// samples (standard error, by leaving out one sample after the other); 0 for a single sample.
struct Gain {
  double decibels = 0;
  double standard_error = 0;
};
Gain GainOf(const OutputErrors& before, const OutputErrors& after);

}  // namespace gq::quantize
