#include "common/calibrate/tensor_observer.h"

#include <algorithm>

#include "common/calibrate/range_rules.h"
#include "common/graph/tensor_view.h"

namespace gq::calibrate {
namespace {

// Bins that a histogram may grow to; Quark has no bound.
constexpr int64_t kMaxBins = int64_t{1} << 14;
constexpr int64_t kMaxBinsQuark = int64_t{1} << 22;

bool IsRawMinMse(const MethodSpec& method) {
  return method.method == Method::kMinMse && method.mode == MinMseMode::kAll && method.bins == 0;
}

}  // namespace

bool HistogramOf(const MethodSpec& method, HistogramSpec* spec) {
  spec->bins = method.bins;
  switch (method.method) {
    case Method::kMinMse:
      spec->kind = HistogramKind::kValue;
      return method.mode == MinMseMode::kAll && method.bins > 0;
    case Method::kPercentile:
    case Method::kLayerwisePercentile:
      spec->kind = method.symmetric ? HistogramKind::kMagnitude : HistogramKind::kSymmetric;
      return true;
    case Method::kEntropy:
    case Method::kDistribution:
      spec->kind = HistogramKind::kSymmetric;
      return true;
    case Method::kMinMax:
    case Method::kMovingAverage:
    case Method::kNonOverflow:
      return false;
  }
  return false;
}

ObservationPlan ObservationPlan::For(std::span<const MethodSpec> methods, bool quark_compatible) {
  ObservationPlan plan;
  plan.methods.assign(methods.begin(), methods.end());
  plan.max_bins = quark_compatible ? kMaxBinsQuark : kMaxBins;
  plan.half_precision_raw = quark_compatible;
  for (const MethodSpec& method : methods) {
    HistogramSpec spec;
    if (HistogramOf(method, &spec)) {
      if (std::find(plan.histograms.begin(), plan.histograms.end(), spec) ==
          plan.histograms.end()) {
        plan.histograms.push_back(spec);
      }
    }
    plan.raw_errors |= IsRawMinMse(method);
    plan.best_per_sample |=
        method.method == Method::kMinMse && method.mode == MinMseMode::kMostCommon;
  }
  return plan;
}

TensorObserver::TensorObserver(std::string name, Grid grid, const ObservationPlan& plan)
    : name_(std::move(name)), grid_(grid), plan_(&plan) {
  for (const HistogramSpec& spec : plan.histograms) histograms_.emplace_back(spec, plan.max_bins);
}

void TensorObserver::Observe(std::span<const float> values, const Extent& extent,
                             runtime::ParallelLoop& loop, std::span<BinScratch> scratch) {
  if (values.empty() || extent.empty()) return;
  ++samples_;
  elements_ += static_cast<int64_t>(values.size());
  extent_.Merge(extent);
  sum_min_ += extent.min;
  sum_max_ += extent.max;
  sum_max_abs_ += extent.MaxAbs();
  for (Histogram& histogram : histograms_) histogram.Add(values, extent, loop, scratch);
  if (plan_->best_per_sample) {
    const PowerOfTwoBase base = BaseOf({extent.min, extent.max}, grid_);
    const int best = BestCandidate(SquaredErrors(values, base, grid_, loop));
    ++best_positions_[base.position - 1 + best];
  }
  if (plan_->raw_errors) {
    std::vector<float> storage;
    raw_extent_.Merge(ScanExtent(RawValues(values, &storage)));
  }
}

std::span<const float> TensorObserver::RawValues(std::span<const float> values,
                                                 std::vector<float>* storage) const {
  if (!plan_->half_precision_raw) return values;
  storage->resize(values.size());
  std::transform(values.begin(), values.end(), storage->begin(),
                 [](float value) { return graph::HalfToFloat(graph::FloatToHalf(value)); });
  return *storage;
}

void TensorObserver::StartRawErrors() {
  raw_base_ =
      raw_extent_.empty() ? PowerOfTwoBase{} : BaseOf({raw_extent_.min, raw_extent_.max}, grid_);
}

void TensorObserver::ObserveRawErrors(std::span<const float> values, runtime::ParallelLoop& loop) {
  std::vector<float> storage;
  const auto errors = SquaredErrors(RawValues(values, &storage), raw_base_, grid_, loop);
  for (size_t i = 0; i < errors.size(); ++i) raw_errors_[i] += errors[i];
}

const Histogram& TensorObserver::HistogramFor(const MethodSpec& method) const {
  HistogramSpec spec;
  HistogramOf(method, &spec);
  return *std::find_if(histograms_.begin(), histograms_.end(),
                       [&](const Histogram& histogram) { return histogram.spec() == spec; });
}

// Of equally frequent scales the smallest, which has the highest position.
Range TensorObserver::MostCommonRange() const {
  int position = 0;
  int64_t most = 0;
  for (const auto& [candidate, samples] : best_positions_) {
    if (samples >= most) {
      most = samples;
      position = candidate;
    }
  }
  const GridLimits limits = LimitsOf(grid_);
  return GridRange(
      {.position = position, .zero_point = extent_.MaxAbs() == 0 ? 0 : limits.zero_point}, 1,
      grid_);
}

Range TensorObserver::RangeBy(const MethodSpec& method) const {
  const Range seen{extent_.min, extent_.max};
  switch (method.method) {
    case Method::kMinMax:
      return method.symmetric ? SymmetricRange(seen) : seen;
    case Method::kNonOverflow:
      return SymmetricRange(seen);
    case Method::kMovingAverage: {
      const Range mean{static_cast<float>(sum_min_ / static_cast<double>(samples_)),
                       static_cast<float>(sum_max_ / static_cast<double>(samples_))};
      return method.symmetric ? SymmetricRange(mean) : mean;
    }
    case Method::kMinMse: {
      if (method.mode == MinMseMode::kMostCommon) return MostCommonRange();
      if (method.bins == 0) return GridRange(raw_base_, BestCandidate(raw_errors_), grid_);
      const PowerOfTwoBase base = BaseOf(seen, grid_);
      return GridRange(base, BestCandidate(SquaredErrors(HistogramFor(method), base, grid_)),
                       grid_);
    }
    case Method::kPercentile:
      return PercentileRange(HistogramFor(method), method.percentile, seen);
    case Method::kLayerwisePercentile:
      return LayerwisePercentileRange(HistogramFor(method), method.candidates, method.squared_error,
                                      grid_, seen);
    case Method::kEntropy:
      return EntropyRange(HistogramFor(method), method.quantized_bins, seen);
    case Method::kDistribution:
      return DistributionRange(HistogramFor(method));
  }
  return seen;
}

TensorCalibration TensorObserver::Finish() const {
  TensorCalibration result{.min = extent_.min,
                           .max = extent_.max,
                           .mean_abs_max = sum_max_abs_ / static_cast<double>(samples_),
                           .elements = elements_,
                           .grid = grid_};
  for (const MethodSpec& method : plan_->methods) result.ranges.push_back(RangeBy(method));
  return result;
}

}  // namespace gq::calibrate
