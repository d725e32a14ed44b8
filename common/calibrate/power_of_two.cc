#include "common/calibrate/power_of_two.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/calibrate/processor.h"

#if GQ_HAS_AVX2_TARGET
#include <immintrin.h>
#endif

namespace gq::calibrate {
namespace {

constexpr size_t kPiece = 16384;

// Integers relative to the zero point.
struct Clip {
  float low;
  float high;
};
Clip ClipOf(const PowerOfTwoBase& base, Grid grid) {
  const GridLimits limits = LimitsOf(grid);
  return {static_cast<float>(limits.qmin - base.zero_point),
          static_cast<float>(limits.qmax - base.zero_point)};
}

double PortableError(std::span<const float> values, float scale, Clip clip) {
  double sum = 0;
  for (const float value : values) {
    const float integer = std::clamp(std::nearbyint(value / scale), clip.low, clip.high);
    const double error = static_cast<double>(integer) * scale - value;
    sum += error * error;
  }
  return sum;
}

#if GQ_HAS_AVX2_TARGET
__attribute__((target("avx2"))) double Avx2Error(std::span<const float> values, float scale,
                                                 Clip clip) {
  // Multiplication by the inverse of a power of two is exact, as long as it is a normal number.
  const __m256 inverse = _mm256_set1_ps(1 / scale);
  const __m256 low = _mm256_set1_ps(clip.low);
  const __m256 high = _mm256_set1_ps(clip.high);
  const __m256 step = _mm256_set1_ps(scale);
  __m256d sums[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    const __m256 x = _mm256_loadu_ps(values.data() + i);
    __m256 q =
        _mm256_round_ps(_mm256_mul_ps(x, inverse), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    q = _mm256_max_ps(low, _mm256_min_ps(high, q));
    const __m256 error = _mm256_sub_ps(_mm256_mul_ps(q, step), x);
    const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(error));
    const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(error, 1));
    sums[0] = _mm256_add_pd(sums[0], _mm256_mul_pd(first, first));
    sums[1] = _mm256_add_pd(sums[1], _mm256_mul_pd(second, second));
  }
  alignas(32) double lanes[4];
  _mm256_store_pd(lanes, _mm256_add_pd(sums[0], sums[1]));
  const double sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  return sum + PortableError(values.subspan(i), scale, clip);
}
#endif

double PieceError(std::span<const float> values, float scale, Clip clip) {
#if GQ_HAS_AVX2_TARGET
  if (HasAvx2() && std::isnormal(1 / scale)) return Avx2Error(values, scale, clip);
#endif
  return PortableError(values, scale, clip);
}

}  // namespace

float PowerOfTwoBase::Scale(int candidate) const {
  return static_cast<float>(std::ldexp(1.0, -(position - 1 + candidate)));
}

PowerOfTwoBase BaseOf(Range seen, Grid grid) {
  const GridLimits limits = LimitsOf(grid);
  constexpr float kLargest = std::numeric_limits<float>::max() / 2;
  const float low = std::max(std::min(seen.min, 0.0f), -kLargest);
  const float high = std::min(std::max(seen.max, 0.0f), kLargest);
  const float largest = std::max(-low, high);
  const double scale = static_cast<double>(largest - (-largest)) / (limits.qmax - limits.qmin);
  if (scale < std::numeric_limits<float>::min()) return {.position = 0, .zero_point = 0};
  const double limited =
      std::clamp(static_cast<double>(static_cast<float>(scale)), 0x1p-127, 0x1p127);
  return {.position = static_cast<int>(std::nearbyint(-std::log2(limited))),
          .zero_point = limits.zero_point};
}

std::array<double, kCandidates> SquaredErrors(std::span<const float> values,
                                              const PowerOfTwoBase& base, Grid grid,
                                              runtime::ParallelLoop& loop) {
  const Clip clip = ClipOf(base, grid);
  const size_t pieces = (values.size() + kPiece - 1) / kPiece;
  std::vector<std::array<double, kCandidates>> sums(pieces);
  loop.For(pieces, [&](size_t piece) {
    const auto part =
        values.subspan(piece * kPiece, std::min(kPiece, values.size() - piece * kPiece));
    for (int i = 0; i < kCandidates; ++i) {
      sums[piece][static_cast<size_t>(i)] = PieceError(part, base.Scale(i), clip);
    }
  });
  std::array<double, kCandidates> total{};
  for (const auto& sum : sums) {
    for (size_t i = 0; i < total.size(); ++i) total[i] += sum[i];
  }
  return total;
}

std::array<double, kCandidates> SquaredErrors(const Histogram& histogram,
                                              const PowerOfTwoBase& base, Grid grid) {
  const Clip clip = ClipOf(base, grid);
  const std::vector<double>& edges = histogram.edges();
  const std::vector<uint64_t>& counts = histogram.counts();
  std::array<double, kCandidates> total{};
  for (int i = 0; i < kCandidates; ++i) {
    const float scale = base.Scale(i);
    double sum = 0;
    for (size_t bin = 0; bin < counts.size(); ++bin) {
      if (counts[bin] == 0) continue;
      const auto centre = static_cast<float>((edges[bin] + edges[bin + 1]) / 2);
      const float integer = std::clamp(std::nearbyint(centre / scale), clip.low, clip.high);
      const double error = static_cast<double>(centre) - static_cast<double>(integer) * scale;
      sum += static_cast<double>(counts[bin]) * error * error;
    }
    total[static_cast<size_t>(i)] = sum;
  }
  return total;
}

int BestCandidate(const std::array<double, kCandidates>& errors) {
  return static_cast<int>(std::min_element(errors.begin(), errors.end()) - errors.begin());
}

Range GridRange(const PowerOfTwoBase& base, int candidate, Grid grid) {
  const GridLimits limits = LimitsOf(grid);
  const double scale = base.Scale(candidate);
  return {static_cast<float>((limits.qmin - base.zero_point) * scale),
          static_cast<float>((limits.qmax - base.zero_point) * scale)};
}

}  // namespace gq::calibrate
