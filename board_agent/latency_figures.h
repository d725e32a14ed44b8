// Figures of a series of measured times.
#pragma once

#include <vector>

namespace gq::agent {

// All in the unit of the samples. Percentiles interpolate linearly between neighbours (as numpy's
// default does); stdev is that of the sample (n - 1), 0 for a single value.
struct LatencyFigures {
  double p50 = 0, p90 = 0, p99 = 0;
  double mean = 0, stdev = 0, min = 0, max = 0;
};

// `samples` must not be empty.
LatencyFigures FiguresOf(std::vector<double> samples);

}  // namespace gq::agent
