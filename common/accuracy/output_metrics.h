// Figures that compare one output of a candidate model with that of a reference, streamed sample by
// sample.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/accuracy/value_histogram.h"

namespace gq::accuracy {

struct OutputMetricsOptions {
  // An element passes when |r - a| <= atol + rtol * |r|.
  double atol = 0.015;
  double rtol = 0.01;
  // Step of the quantizer that the output comes out of; 0 when it does not come out of one.
  double quantization_step = 0;
  // Upper bound of the elements of all samples together. Sizes the exact tail behind
  // `percentile_max`.
  int64_t expected_elements = 0;
  // Keep the two 2048-bin histograms behind `kl`.
  bool histogram = true;
};

// One element of the reference and the candidate, for a scatter chart.
struct ScatterPoint {
  float reference;
  float candidate;
};

// r = reference, a = candidate, n = elements; every sum runs over all samples. A pair in which both
// sides are NaN, or the same infinity, passes and stays out of every other figure; any other pair
// with a NaN or an infinity makes the errors infinite (mse, mae, max_abs +inf; psnr_db, snr_db
// -inf; cosine NaN).
struct OutputFigures {
  int64_t samples = 0;
  int64_t elements = 0;
  int64_t nonfinite_reference = 0;  // elements
  int64_t nonfinite_candidate = 0;  // elements

  double mse = 0;           // mean (r-a)^2
  double mae = 0;           // mean |r-a|
  double max_abs = 0;       // max |r-a|
  double psnr_db = 0;       // 10 log10(max|r|^2 / mse); +inf when mse is 0, else 0 when max|r| is 0
  double snr_db = 0;        // 10 log10(sum r^2 / sum (r-a)^2); +inf when the noise is 0
  double cosine = 1;        // r.a / (|r||a|); 1 when the denominator is 0
  double pass_rate = 100;   // percent of elements that pass
  double max_relative = 0;  // max |r-a|/|r| over |r| > 1e-30
  double mean_relative = 0;       // its mean
  double percentile_max = 0;      // 99.99th percentile of |r-a|, linear interpolation
  double kurtosis_reference = 0;  // m4 / m2^2, NaN when all values are equal
  double kurtosis_ratio = 0;      // kurtosis(a) / kurtosis(r)
  double kl = 0;                  // KL(r || a) of the histograms, nats; NaN without `histogram`
  double step_allows_pass_rate = 100;  // percent of elements with atol + rtol*|r| >= step / 2

  double peak_reference = 0;  // max |r|
  double min_reference = 0, max_reference = 0;
  double min_candidate = 0, max_candidate = 0;
  int64_t worst_sample = -1;   // sample of max_abs
  int64_t worst_element = -1;  // flat index of max_abs within that sample

  // PSNR of each sample on its own, over the samples where it is finite; NaN when there is none.
  double sample_psnr_mean_db = std::numeric_limits<double>::quiet_NaN();
  double sample_psnr_min_db = std::numeric_limits<double>::quiet_NaN();
  int64_t sample_psnr_min_index = -1;
};

// Accumulates in float64. Memory does not depend on the number of samples. Not thread-safe.
class OutputMetrics {
 public:
  explicit OutputMetrics(const OutputMetricsOptions& options);

  // One sample: the whole output of both models, flattened in the same order and of the same
  // length.
  void AddSample(std::span<const float> reference, std::span<const float> candidate);
  void AddSample(std::span<const double> reference, std::span<const double> candidate);

  OutputFigures Figures() const;

  // Up to a few hundred pairs, taken at even distances from every sample.
  std::span<const ScatterPoint> Scatter() const { return scatter_; }

 private:
  // Count, mean and central moments, merged block by block (Pebay 2008).
  struct Moments {
    double n = 0, mean = 0, m2 = 0, m3 = 0, m4 = 0;
    void Merge(const Moments& other);
  };

  template <typename T>
  void Add(std::span<const T> reference, std::span<const T> candidate);
  void AddBlock(const double* reference, const double* candidate, int count, int64_t offset);
  void AddTail(double error);
  double TailPercentile() const;

  OutputMetricsOptions options_;
  int64_t samples_ = 0;
  int64_t elements_ = 0;  // all
  int64_t compared_ = 0;  // without pairs of equal non-finite values
  int64_t broken_ = 0;    // pairs where just one side is non-finite, or the two differ
  int64_t nonfinite_reference_ = 0;
  int64_t nonfinite_candidate_ = 0;
  int64_t passed_ = 0;
  int64_t step_allows_ = 0;
  double sum_squared_error_ = 0;
  double sum_abs_error_ = 0;
  double sum_rr_ = 0, sum_aa_ = 0, sum_ra_ = 0;
  double max_abs_ = 0, peak_ = 0;
  double min_r_, max_r_, min_a_, max_a_;
  double sum_relative_ = 0, max_relative_ = 0;
  int64_t relative_count_ = 0;
  int64_t worst_sample_ = -1, worst_element_ = -1;
  double sample_squared_error_ = 0, sample_peak_ = 0;  // of the sample being added
  int64_t sample_compared_ = 0, sample_broken_ = 0;
  double sample_psnr_sum_ = 0, sample_psnr_min_;
  int64_t sample_psnr_count_ = 0, sample_psnr_min_index_ = -1;
  Moments moments_r_, moments_a_;
  ValueHistogram histogram_;
  std::vector<double> tail_;  // min-heap of the largest errors
  size_t tail_capacity_;
  std::vector<ScatterPoint> scatter_;
};

}  // namespace gq::accuracy
