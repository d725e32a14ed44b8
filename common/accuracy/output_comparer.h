// Both models' values of one output, from the first sample to the last.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/accuracy/class_metrics.h"
#include "common/accuracy/output_metrics.h"
#include "common/accuracy/output_report.h"
#include "common/runtime/tensor.h"

namespace gq::accuracy {

// When an output counts as class scores.
enum class ClassRule {
  kNever,
  kAlways,           // wherever its shape has a class axis
  kIfDistributions,  // when every row of its first sample adds up to 1
};

struct ComparerOptions {
  double atol = 0.015;
  double rtol = 0.01;
  double quantization_step = 0;
  int64_t samples = 0;  // that will come at most
  ClassRule class_rule = ClassRule::kIfDistributions;
  std::optional<int> class_axis;  // overrides the rule by rank
  bool masks = false;             // one score a pixel counts as two classes
  bool open_shape = false;        // the output's shape depends on the data
};

// Not thread-safe.
class OutputComparer {
 public:
  OutputComparer(std::string name, const ComparerOptions& options)
      : name_(std::move(name)), options_(options) {}

  // One sample. `labels` is empty or has one class a row. MODEL_INVALID when the two outputs have
  // different shapes or types that cannot be compared; an open shape that differs in the sizes
  // alone leaves the sample out of the figures.
  absl::Status AddSample(const runtime::Tensor& reference, const runtime::Tensor& candidate,
                         std::span<const int64_t> labels);

  OutputReport Report() const;
  const std::string& name() const { return name_; }

  // The reference's and the candidate's values of the last sample.
  std::span<const float> reference_values() const { return reference_; }
  std::span<const float> candidate_values() const { return candidate_; }

 private:
  void Begin(const runtime::Tensor& reference);
  void BeginClasses();
  void AddClasses(std::span<const int64_t> labels);

  std::string name_;
  ComparerOptions options_;
  bool is_float_ = true;
  int32_t dtype_ = 0;
  std::vector<int64_t> shape_;
  int64_t other_shape_ = 0;  // samples that were left out
  std::optional<OutputMetrics> metrics_;
  std::optional<ClassMetrics> classes_;
  bool is_mask_ = false, logits_ = false;
  std::vector<float> converted_reference_, converted_candidate_;
  std::span<const float> reference_, candidate_;
};

}  // namespace gq::accuracy
