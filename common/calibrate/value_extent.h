// Smallest and largest of many values, fast.
#pragma once

#include <limits>
#include <span>

namespace gq::calibrate {

// Over finite values; min > max when there was none.
struct Extent {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  bool has_infinity = false;

  bool empty() const { return min > max; }
  bool finite() const { return !has_nan && !has_infinity; }
  float MaxAbs() const;
  void Merge(const Extent& other);
};

// Extent of all values. Where one is not finite, the others are counted still. Uses AVX2 where the
// processor has it; the result is the same without.
Extent ScanExtent(std::span<const float> values);

// Smallest |x| of all values; +infinity for none.
float SmallestMagnitude(std::span<const float> values);

}  // namespace gq::calibrate
