// Ranges out of histograms, as Quark and ONNX Runtime compute them (spec reference e.4). `seen` is
// the smallest and largest value over all samples.
#pragma once

#include <span>

#include "common/calibrate/histogram.h"
#include "common/calibrate/method.h"

namespace gq::calibrate {

// [-A, A] with A the larger magnitude.
Range SymmetricRange(Range seen);

// kMagnitude: [-edge, edge] with the edge where the share of values reaches the percentile;
// kSymmetric: the same at both ends, half of the rest each. No wider than `seen`.
Range PercentileRange(const Histogram& histogram, double percentile, Range seen);

// Of each percentile's range the one with the least mean error when values are rounded to the grid
// of an asymmetric scale; of equal ones the first.
Range LayerwisePercentileRange(const Histogram& histogram, std::span<const double> percentiles,
                               bool squared_error, Grid grid, Range seen);

// The threshold whose histogram, reduced to `quantized_bins` and widened again, has the least
// Kullback-Leibler divergence from the clipped one. Over a kSymmetric histogram.
Range EntropyRange(const Histogram& histogram, int64_t quantized_bins, Range seen);

// The ends of a kSymmetric histogram.
Range DistributionRange(const Histogram& histogram);

}  // namespace gq::calibrate
