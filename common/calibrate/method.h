// Calibration methods: how the range of a tensor follows from what was seen of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::calibrate {

enum class Method {
  kMinMax,               // smallest and largest value
  kMovingAverage,        // mean of each sample's smallest and of each sample's largest value
  kNonOverflow,          // as kMinMax with [-A, A], for power-of-two scales
  kMinMse,               // power-of-two scale of the least squared error
  kPercentile,           // cuts what lies beyond a percentile
  kEntropy,              // least Kullback-Leibler divergence (ONNX Runtime's method)
  kDistribution,         // ONNX Runtime's method for float 8: ends of the histogram
  kLayerwisePercentile,  // of several percentiles the one with the least error on each tensor
};

// The integers that a tensor will be quantized to, where the range depends on it.
enum class Grid {
  kInt8,    // -127 .. 127
  kUint8,   // symmetric: 0 .. 255 around 128
  kInt16,   // -32767 .. 32767
  kUint16,  // symmetric: 0 .. 65535 around 32768
};
struct GridLimits {
  double qmin;
  double qmax;
  double zero_point;  // of the symmetric power-of-two form
};
GridLimits LimitsOf(Grid grid);

struct Range {
  float min = 0;
  float max = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

enum class MinMseMode {
  kAll,         // all samples together: over a histogram, or raw values when bins is 0
  kMostCommon,  // best scale of each sample, then the most frequent one
};

// A method with its settings. Numeric rules: spec reference e.2-e.4 and the golden vectors.
struct MethodSpec {
  Method method = Method::kMinMax;
  // kMinMax, kMovingAverage: [-A, A] instead of [min, max]. kPercentile, kLayerwisePercentile:
  // percentile of |x| instead of both ends.
  bool symmetric = false;
  int64_t bins = 0;
  int64_t quantized_bins = 128;  // kEntropy
  double percentile = 99.999;    // kPercentile
  MinMseMode mode = MinMseMode::kAll;
  std::vector<double> candidates;  // kLayerwisePercentile
  bool squared_error = false;      // kLayerwisePercentile: mean squared instead of absolute error

  // The method with the settings that it has when nothing else is said: 2048 bins, symmetric
  // percentile 99.999, entropy with 128/128 bins, layerwise candidates 99.99, 99.999, 99.99999.
  static MethodSpec Default(Method method);

  // Text that is equal for equal settings; part of the key of a cached calibration.
  std::string Key() const;
  friend bool operator==(const MethodSpec&, const MethodSpec&) = default;
};

// "minmax", "moving-average", "nonoverflow", "minmse", "percentile", "entropy", "distribution",
// "layerwise-percentile".
std::string_view MethodName(Method method);

// A value of --calibration-method: one of the names, or "percentile:P" with 0 < P <= 100.
// INVALID_FLAG with the list of names.
absl::StatusOr<MethodSpec> ParseMethod(std::string_view text);

}  // namespace gq::calibrate
