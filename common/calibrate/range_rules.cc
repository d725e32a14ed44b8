#include "common/calibrate/range_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gq::calibrate {
namespace {

// First edge at which the summed share of values is at least `share`.
float EdgeAtShare(const Histogram& histogram, double share) {
  const auto total = static_cast<double>(histogram.total());
  const std::vector<uint64_t>& counts = histogram.counts();
  double sum = 0;
  size_t bin = 0;
  for (; bin < counts.size(); ++bin) {
    sum += static_cast<double>(counts[bin]) / total;
    if (sum >= share) break;
  }
  return static_cast<float>(histogram.edges()[bin]);
}

Range Within(Range range, Range seen) {
  return {std::max(range.min, seen.min), std::min(range.max, seen.max)};
}

// Full integer range of an asymmetric scale.
struct AsymmetricGrid {
  double qmin;
  double qmax;
};
AsymmetricGrid FullGrid(Grid grid) {
  switch (grid) {
    case Grid::kInt8:
      return {-128, 127};
    case Grid::kUint8:
      return {0, 255};
    case Grid::kInt16:
      return {-32768, 32767};
    case Grid::kUint16:
      return {0, 65535};
  }
  return {-128, 127};
}

double MeanRoundingError(const Histogram& histogram, Range range, AsymmetricGrid grid,
                         bool squared_error) {
  constexpr float kLargest = std::numeric_limits<float>::max() / 2;
  const float low = std::max(std::min(range.min, 0.0f), -kLargest);
  const float high = std::min(std::max(range.max, 0.0f), kLargest);
  const double exact = static_cast<double>(high - low) / (grid.qmax - grid.qmin);
  double scale = 1;
  double zero_point = 0;
  if (exact >= std::numeric_limits<float>::min()) {
    scale = static_cast<float>(exact);
    zero_point = std::nearbyint(grid.qmin - low / exact);
  }
  const auto total = static_cast<double>(histogram.total());
  double sum = 0;
  for (size_t bin = 0; bin < histogram.counts().size(); ++bin) {
    const double centre = (histogram.edges()[bin] + histogram.edges()[bin + 1]) / 2;
    const double integer =
        std::clamp(std::nearbyint(centre / scale + zero_point), grid.qmin, grid.qmax);
    const double error = centre - (integer - zero_point) * scale;
    sum += static_cast<double>(histogram.counts()[bin]) *
           (squared_error ? error * error : std::fabs(error));
  }
  return sum / total;
}

// Replaces empty bins by a little and takes it from the others, in float32. Empty when there is
// nothing to take from.
std::vector<float> Smooth(const std::vector<int64_t>& counts) {
  constexpr float kLittle = 0.0001f;
  const auto zeros = std::count(counts.begin(), counts.end(), 0);
  const auto others = static_cast<int64_t>(counts.size()) - zeros;
  if (others == 0) return {};
  const auto taken =
      static_cast<float>(0.0001 * static_cast<double>(zeros) / static_cast<double>(others));
  std::vector<float> smooth;
  smooth.reserve(counts.size());
  for (const int64_t count : counts) {
    smooth.push_back(static_cast<float>(count) + (count == 0 ? kLittle : -taken));
  }
  return smooth;
}

float Divergence(const std::vector<float>& p, const std::vector<float>& q) {
  const float p_sum = std::accumulate(p.begin(), p.end(), 0.0f);
  const float q_sum = std::accumulate(q.begin(), q.end(), 0.0f);
  float sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const float share = p[i] / p_sum;
    const float other = q[i] / q_sum;
    if (share == 0 && other >= 0) continue;
    if (!(share > 0 && other > 0)) return std::numeric_limits<float>::infinity();
    sum += share * std::log(share / other);
  }
  return sum;
}

// Divergence when bins [start, end) are kept.
float DivergenceOf(const std::vector<uint64_t>& counts, size_t start, size_t end,
                   int64_t quantized_bins) {
  std::vector<int64_t> kept(counts.begin() + static_cast<std::ptrdiff_t>(start),
                            counts.begin() + static_cast<std::ptrdiff_t>(end));
  std::vector<int64_t> clipped = kept;
  for (size_t i = 0; i < start; ++i) clipped.front() += static_cast<int64_t>(counts[i]);
  for (size_t i = end; i < counts.size(); ++i) clipped.back() += static_cast<int64_t>(counts[i]);

  const size_t groups = static_cast<size_t>(quantized_bins);
  const size_t width = kept.size() / groups;
  std::vector<int64_t> reduced(groups, 0);
  for (size_t group = 0; group < groups; ++group) {
    for (size_t i = group * width; i < (group + 1) * width; ++i) reduced[group] += kept[i];
  }
  for (size_t i = groups * width; i < kept.size(); ++i) reduced.back() += kept[i];

  std::vector<int64_t> widened(clipped.size(), 0);
  for (size_t group = 0; group < groups; ++group) {
    const auto begin = clipped.begin() + static_cast<std::ptrdiff_t>(group * width);
    const auto used = std::count_if(begin, begin + static_cast<std::ptrdiff_t>(width),
                                    [](int64_t count) { return count != 0; });
    if (used == 0) continue;
    std::fill_n(widened.begin() + static_cast<std::ptrdiff_t>(group * width), width,
                reduced[group] / used);
  }
  const std::vector<float> p = Smooth(clipped);
  const std::vector<float> q = Smooth(widened);
  if (p.empty() || q.empty()) return std::numeric_limits<float>::infinity();
  return Divergence(p, q);
}

}  // namespace

Range SymmetricRange(Range seen) {
  const float largest = std::max(std::fabs(seen.min), std::fabs(seen.max));
  return {-largest, largest};
}

Range PercentileRange(const Histogram& histogram, double percentile, Range seen) {
  if (histogram.spec().kind == HistogramKind::kMagnitude) {
    const float edge = EdgeAtShare(histogram, percentile / 100);
    return Within({-edge, edge}, seen);
  }
  const double cut = (100 - percentile) / 200;
  return Within({EdgeAtShare(histogram, cut), EdgeAtShare(histogram, 1 - cut)}, seen);
}

Range LayerwisePercentileRange(const Histogram& histogram, std::span<const double> percentiles,
                               bool squared_error, Grid grid, Range seen) {
  Range best = seen;
  double least = std::numeric_limits<double>::infinity();
  for (const double percentile : percentiles) {
    const Range range = PercentileRange(histogram, percentile, seen);
    const double error = MeanRoundingError(histogram, range, FullGrid(grid), squared_error);
    if (error < least) {
      least = error;
      best = range;
    }
  }
  return best;
}

Range EntropyRange(const Histogram& histogram, int64_t quantized_bins, Range seen) {
  const std::vector<uint64_t>& counts = histogram.counts();
  const auto bins = static_cast<int64_t>(counts.size());
  const int64_t middle = bins / 2;
  const int64_t half = quantized_bins / 2;
  Range best{0, 0};
  float least = std::numeric_limits<float>::infinity();
  for (int64_t reach = half; reach <= middle; ++reach) {
    const auto start = static_cast<size_t>(middle - reach);
    const auto end = static_cast<size_t>(std::min(middle + reach + 1, bins));
    const float divergence = DivergenceOf(counts, start, end, quantized_bins);
    if (reach == half || divergence < least) {
      least = divergence;
      best = {static_cast<float>(histogram.edges()[start]),
              static_cast<float>(histogram.edges()[end])};
    }
  }
  return Within(best, seen);
}

Range DistributionRange(const Histogram& histogram) {
  return {static_cast<float>(histogram.edges().front()),
          static_cast<float>(histogram.edges().back())};
}

}  // namespace gq::calibrate
