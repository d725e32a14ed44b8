#include "common/calibrate/value_extent.h"

#include <algorithm>
#include <cmath>

#include "common/calibrate/processor.h"

#if GQ_HAS_AVX2_TARGET
#include <immintrin.h>
#endif

namespace gq::calibrate {
namespace {

// Values that are not finite are left out one by one.
Extent ScanWithCare(std::span<const float> values) {
  Extent extent;
  for (const float value : values) {
    if (std::isnan(value)) {
      extent.has_nan = true;
    } else if (std::isinf(value)) {
      extent.has_infinity = true;
    } else {
      extent.min = std::min(extent.min, value);
      extent.max = std::max(extent.max, value);
    }
  }
  return extent;
}

// False when some value is not finite; `extent` is then incomplete.
bool ScanPortable(std::span<const float> values, Extent* extent) {
  float low = extent->min;
  float high = extent->max;
  bool ordered = true;
  for (const float value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
    ordered &= value == value;
  }
  extent->min = low;
  extent->max = high;
  return ordered && !std::isinf(low) && !std::isinf(high);
}

#if GQ_HAS_AVX2_TARGET
__attribute__((target("avx2"))) bool ScanAvx2(std::span<const float> values, Extent* extent) {
  const float* data = values.data();
  const size_t count = values.size();
  __m256 low0 = _mm256_set1_ps(extent->min);
  __m256 high0 = _mm256_set1_ps(extent->max);
  __m256 low1 = low0;
  __m256 high1 = high0;
  __m256 unordered = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256 a = _mm256_loadu_ps(data + i);
    const __m256 b = _mm256_loadu_ps(data + i + 8);
    // One comparison sees a NaN in either operand.
    unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
    low0 = _mm256_min_ps(low0, a);
    high0 = _mm256_max_ps(high0, a);
    low1 = _mm256_min_ps(low1, b);
    high1 = _mm256_max_ps(high1, b);
  }
  alignas(32) float lows[8];
  alignas(32) float highs[8];
  _mm256_store_ps(lows, _mm256_min_ps(low0, low1));
  _mm256_store_ps(highs, _mm256_max_ps(high0, high1));
  for (int lane = 0; lane < 8; ++lane) {
    extent->min = std::min(extent->min, lows[lane]);
    extent->max = std::max(extent->max, highs[lane]);
  }
  const bool ordered = _mm256_movemask_ps(unordered) == 0;
  return ScanPortable(values.subspan(i), extent) && ordered;
}
#endif

bool Scan(std::span<const float> values, Extent* extent) {
#if GQ_HAS_AVX2_TARGET
  if (HasAvx2()) return ScanAvx2(values, extent);
#endif
  return ScanPortable(values, extent);
}

}  // namespace

float Extent::MaxAbs() const { return empty() ? 0 : std::max(std::fabs(min), std::fabs(max)); }

void Extent::Merge(const Extent& other) {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  has_nan |= other.has_nan;
  has_infinity |= other.has_infinity;
}

Extent ScanExtent(std::span<const float> values) {
  if (values.empty()) return {};
  Extent extent;
  if (Scan(values, &extent)) return extent;
  return ScanWithCare(values);
}

float SmallestMagnitude(std::span<const float> values) {
  float smallest = std::numeric_limits<float>::infinity();
  for (const float value : values) smallest = std::min(smallest, std::fabs(value));
  return smallest;
}

}  // namespace gq::calibrate
