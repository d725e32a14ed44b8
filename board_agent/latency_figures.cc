#include "board_agent/latency_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace gq::agent {

LatencyFigures FiguresOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const auto percentile = [&](double p) {
    const double place = p / 100 * (n - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, samples.size() - 1);
    return samples[low] + (place - static_cast<double>(low)) * (samples[high] - samples[low]);
  };
  LatencyFigures f;
  f.p50 = percentile(50);
  f.p90 = percentile(90);
  f.p99 = percentile(99);
  f.min = samples.front();
  f.max = samples.back();
  f.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : samples) squares += (sample - f.mean) * (sample - f.mean);
  f.stdev = samples.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  return f;
}

}  // namespace gq::agent
