// What calibration keeps of one tensor while samples pass by.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/calibrate/calibration_table.h"
#include "common/calibrate/histogram.h"
#include "common/calibrate/method.h"
#include "common/calibrate/power_of_two.h"
#include "common/runtime/parallel_loop.h"

namespace gq::calibrate {

// Which statistics a set of methods needs.
struct ObservationPlan {
  std::vector<MethodSpec> methods;
  std::vector<HistogramSpec> histograms;  // each once
  bool best_per_sample = false;           // MinMseMode::kMostCommon
  bool raw_errors = false;                // kMinMse without bins: a second pass
  int64_t max_bins = 0;
  // Raw errors over values rounded to float16, as Quark stores them between its two passes.
  bool half_precision_raw = false;

  static ObservationPlan For(std::span<const MethodSpec> methods, bool quark_compatible);
};

// The histogram that a method reads; false when it reads none.
bool HistogramOf(const MethodSpec& method, HistogramSpec* spec);

class TensorObserver {
 public:
  TensorObserver(std::string name, Grid grid, const ObservationPlan& plan);

  const std::string& name() const { return name_; }

  // First pass: one sample, all values finite.
  void Observe(std::span<const float> values, const Extent& extent, runtime::ParallelLoop& loop,
               std::span<BinScratch> scratch);
  // Between the passes, when the plan has raw_errors.
  void StartRawErrors();
  void ObserveRawErrors(std::span<const float> values, runtime::ParallelLoop& loop);

  bool empty() const { return samples_ == 0; }
  TensorCalibration Finish() const;

 private:
  Range RangeBy(const MethodSpec& method) const;
  const Histogram& HistogramFor(const MethodSpec& method) const;
  Range MostCommonRange() const;
  // The values, rounded through float16 where the plan says so.
  std::span<const float> RawValues(std::span<const float> values,
                                   std::vector<float>* storage) const;

  std::string name_;
  Grid grid_;
  const ObservationPlan* plan_;
  int64_t samples_ = 0;
  int64_t elements_ = 0;
  Extent extent_;
  double sum_min_ = 0;  // over samples
  double sum_max_ = 0;
  double sum_max_abs_ = 0;
  std::vector<Histogram> histograms_;      // as in the plan
  std::map<int, int64_t> best_positions_;  // position of the best scale -> samples
  Extent raw_extent_;
  PowerOfTwoBase raw_base_;
  std::array<double, kCandidates> raw_errors_{};
};

}  // namespace gq::calibrate
