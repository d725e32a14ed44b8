// From float values to the stored elements of a quantized tensor, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/quantize/scale.h"

namespace gq::quantize {

// The integer that stands for one value: x / scale in float32, rounded half to even, plus zero
// point, held within the symmetric range of the type (offline data never holds the most negative
// value of a signed type). NaN becomes the zero point.
int64_t QuantizeValue(float value, const QuantParams& params);

// Elements as onnx stores them: little endian, two 4-bit elements a byte; FLOAT16 and BFLOAT16
// rounded to nearest even after the division by the scale.
std::vector<std::byte> QuantizeValues(std::span<const float> values, const QuantParams& params);

// The same with one set of parameters for each index of `axis` (params.size() == dims[axis], all of
// one type).
std::vector<std::byte> QuantizePerChannel(std::span<const float> values,
                                          std::span<const int64_t> dims, int axis,
                                          std::span<const QuantParams> params);

// What the stored elements of `values` stand for, in float32.
std::vector<float> RoundTrip(std::span<const float> values, const QuantParams& params);
// The same into memory for values.size() floats.
void RoundTrip(std::span<const float> values, const QuantParams& params, float* result);

// Values of channel `index` of `axis`, in order.
std::vector<float> ChannelValues(std::span<const float> values, std::span<const int64_t> dims,
                                 int axis, int64_t index);

// Smallest and largest value; {0, 0} for none. NaN is passed over.
ValueRange RangeOfValues(std::span<const float> values);

// Holds magnitudes between the smallest normal and the largest finite value of bfloat16 (zeros stay
// zero), or below the largest of float16, so that rounding never makes an infinity.
std::vector<float> ClampToFinite(std::span<const float> values, ElementType type);

}  // namespace gq::quantize
