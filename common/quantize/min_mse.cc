#include "common/quantize/min_mse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "common/quantize/quantize_values.h"

namespace gq::quantize {
namespace {

constexpr size_t kBlock = 128;

// Eight partial sums, for 8 to kBlock values.
float SumOfBlock(const float* values, size_t count) {
  std::array<float, 8> parts;
  std::copy_n(values, 8, parts.begin());
  size_t i = 8;
  for (; i + 8 <= count; i += 8) {
    for (size_t j = 0; j < 8; ++j) parts[j] += values[i + j];
  }
  float sum = ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
              ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  for (; i < count; ++i) sum += values[i];
  return sum;
}

// Pairwise sum of what `fill(first, count, block)` writes for the elements first .. first + count.
template <typename Fill>
float PairwiseSumOf(size_t first, size_t count, Fill fill) {
  if (count > kBlock) {
    size_t half = count / 2;
    half -= half % 8;
    return PairwiseSumOf(first, half, fill) + PairwiseSumOf(first + half, count - half, fill);
  }
  std::array<float, kBlock> block;
  fill(first, count, block.data());
  if (count >= 8) return SumOfBlock(block.data(), count);
  float sum = 0;
  for (size_t i = 0; i < count; ++i) sum += block[i];
  return sum;
}

float SquaredErrors(std::span<const float> values, const QuantParams& params) {
  return PairwiseSumOf(0, values.size(), [&](size_t first, size_t count, float* block) {
    const auto part = values.subspan(first, count);
    RoundTrip(part, params, block);
    for (size_t i = 0; i < count; ++i) {
      const float difference = block[i] - part[i];
      block[i] = difference * difference;
    }
  });
}

// Linear interpolation between the sorted values at `percent`.
float Percentile(const std::vector<float>& sorted, double percent) {
  const double place = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(std::floor(place));
  const size_t high = std::min(low + 1, sorted.size() - 1);
  const double fraction = place - static_cast<double>(low);
  return static_cast<float>(sorted[low] +
                            (static_cast<double>(sorted[high]) - sorted[low]) * fraction);
}

}  // namespace

float PairwiseSum(std::span<const float> values) {
  return PairwiseSumOf(0, values.size(), [&](size_t first, size_t count, float* block) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), count, block);
  });
}

QuantParams MinMseParams(std::span<const float> values, ElementType type, bool symmetric,
                         bool reduce) {
  const QuantParams base =
      IntegerParams(RangeOfValues(values), type, symmetric, ScaleType::kPowerOfTwo, reduce);
  const int position = PositionOfScale(base.scale);
  QuantParams best = base;
  float least = std::numeric_limits<float>::infinity();
  for (int offset = -1; offset <= 3; ++offset) {
    QuantParams candidate = base;
    candidate.scale = ScaleOfPosition(position + offset);
    const float cost = SquaredErrors(values, candidate);
    if (cost < least) {
      least = cost;
      best = candidate;
    }
  }
  return best;
}

QuantParams PercentileMinMseParams(std::span<const float> values, ElementType type,
                                   bool symmetric) {
  if (values.empty()) return IntegerParams({}, type, symmetric, ScaleType::kFloat32);
  std::vector<float> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  std::optional<QuantParams> best;
  double least = std::numeric_limits<double>::infinity();
  for (const double percent : {99.9, 99.99, 99.999, 99.9999}) {
    const double tail = (100.0 - percent) / 2;
    const QuantParams candidate =
        IntegerParams({Percentile(sorted, tail), Percentile(sorted, 100.0 - tail)}, type, symmetric,
                      ScaleType::kFloat32);
    const double cost = SquaredErrors(values, candidate);
    if (!best || cost < least) {
      least = cost;
      best = candidate;
    }
  }
  return *best;
}

}  // namespace gq::quantize
