#include "common/accuracy/output_comparer.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/tensor_view.h"
#include "onnx/onnx_pb.h"

namespace gq::accuracy {
namespace {

using base::StrCat;

absl::Status Incomparable(const std::string& name, const runtime::Tensor& reference,
                          const runtime::Tensor& candidate) {
  return base::MakeError(
      base::Reason::kModelInvalid,
      StrCat("output '", name, "' is ", runtime::Describe(candidate.dtype(), candidate.shape()),
             " in the candidate but ", runtime::Describe(reference.dtype(), reference.shape()),
             " in the reference"),
      "compare two models with the same outputs");
}

// The elements as float32, converted into `storage` where they have another type.
absl::StatusOr<std::span<const float>> Floats(const runtime::Tensor& tensor,
                                              std::vector<float>& storage) {
  if (tensor.dtype() == onnx::TensorProto::FLOAT) return tensor.As<float>();
  GQ_ASSIGN_OR_RETURN(storage, tensor.View().ToFloats());
  return std::span<const float>(storage);
}

}  // namespace

void OutputComparer::BeginClasses() {
  const std::optional<ClassLayout> layout = ClassLayoutOf(shape_, options_.class_axis);
  if (layout) {
    if (options_.class_rule == ClassRule::kAlways || IsDistribution(reference_, *layout)) {
      classes_.emplace(*layout);
    }
    return;
  }
  if (!options_.masks || !IsMaskShape(shape_)) return;
  is_mask_ = true;
  logits_ = std::any_of(reference_.begin(), reference_.end(),
                        [](float value) { return value < 0 || value > 1; });
  classes_.emplace(
      ClassLayout{.outer = static_cast<int64_t>(reference_.size()), .classes = 2, .inner = 1});
}

void OutputComparer::AddClasses(std::span<const int64_t> labels) {
  const bool fits = static_cast<int64_t>(labels.size()) == classes_->layout().rows();
  if (!fits) labels = {};
  if (is_mask_) {
    classes_->AddSample(MaskScores(reference_, logits_), MaskScores(candidate_, logits_), labels);
  } else {
    classes_->AddSample(reference_, candidate_, labels);
  }
}

void OutputComparer::Begin(const runtime::Tensor& reference) {
  dtype_ = reference.dtype();
  shape_ = reference.shape();
  is_float_ = graph::IsFloatType(dtype_);
  if (is_float_ && options_.class_rule != ClassRule::kNever) BeginClasses();
  OutputMetricsOptions metrics;
  metrics.atol = is_float_ ? options_.atol : 0;
  metrics.rtol = is_float_ ? options_.rtol : 0;
  metrics.quantization_step = options_.quantization_step;
  metrics.expected_elements = reference.size() * options_.samples;
  metrics.histogram = is_float_ && !classes_;
  metrics_.emplace(metrics);
}

absl::Status OutputComparer::AddSample(const runtime::Tensor& reference,
                                       const runtime::Tensor& candidate,
                                       std::span<const int64_t> labels) {
  const bool other_shape = reference.shape() != candidate.shape();
  if (other_shape && options_.open_shape && reference.dtype() == candidate.dtype() &&
      reference.shape().size() == candidate.shape().size()) {
    ++other_shape_;
    dtype_ = reference.dtype();
    shape_ = reference.shape();
    reference_ = candidate_ = {};
    return absl::OkStatus();
  }
  if (other_shape ||
      graph::IsFloatType(reference.dtype()) != graph::IsFloatType(candidate.dtype())) {
    return Incomparable(name_, reference, candidate);
  }
  GQ_ASSIGN_OR_RETURN(reference_, Floats(reference, converted_reference_));
  GQ_ASSIGN_OR_RETURN(candidate_, Floats(candidate, converted_candidate_));
  if (!metrics_) Begin(reference);
  // Float32 holds neither doubles nor large integers exactly.
  if (reference.dtype() == onnx::TensorProto::FLOAT &&
      candidate.dtype() == onnx::TensorProto::FLOAT) {
    metrics_->AddSample(reference_, candidate_);
  } else {
    GQ_ASSIGN_OR_RETURN(const std::vector<double> r, reference.View().ToDoubles());
    GQ_ASSIGN_OR_RETURN(const std::vector<double> a, candidate.View().ToDoubles());
    metrics_->AddSample(r, a);
  }
  if (classes_) AddClasses(labels);
  return absl::OkStatus();
}

OutputReport OutputComparer::Report() const {
  OutputReport report;
  report.name = name_;
  report.dtype = std::string(graph::DTypeName(dtype_));
  report.shape = shape_;
  report.is_float = is_float_ && metrics_.has_value();
  report.samples_of_other_shape = other_shape_;
  report.quantization_step = options_.quantization_step;
  if (metrics_) {
    report.figures = metrics_->Figures();
    report.scatter.assign(metrics_->Scatter().begin(), metrics_->Scatter().end());
  }
  if (classes_) report.classes = classes_->Figures();
  return report;
}

}  // namespace gq::accuracy
