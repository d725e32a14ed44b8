// Scale and zero point of one tensor from its range. Rules and sources: docs of AMD Quark's formats
// (reference: spec section "Numeric semantics"), restated at each function.
#pragma once

#include <cstdint>

namespace gq::quantize {

// Element type of quantized data: a value of onnx::TensorProto::DataType.
using ElementType = int32_t;

enum class ScaleType { kFloat32, kPowerOfTwo };

// Observed smallest and largest value of a tensor.
struct ValueRange {
  float min = 0;
  float max = 0;
};

struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};

// Quantized value q stands for (q - zero_point) * scale.
struct QuantParams {
  float scale = 1;
  int64_t zero_point = 0;
  ElementType type = 0;

  bool operator==(const QuantParams&) const = default;
};

// True for FLOAT16 and BFLOAT16, which are rounded to rather than counted in steps.
bool IsReducedFloat(ElementType type);

// Values that data may take. The symmetric range of a signed type leaves the most negative value
// out; the reduced range of `reduce` halves the steps.
IntegerRange RangeOf(ElementType type, bool symmetric, bool reduce = false);

// The position p of a scale 2^-p: -log2(scale) rounded half to even in the log domain, so the scale
// that comes out may be smaller than the one that went in and the extreme value may clip. The scale
// is held within 2^-127 .. 2^127.
int PositionOfScale(double scale);
float ScaleOfPosition(int position);

// True when `scale` is 2^-p for an integer p.
bool IsPowerOfTwo(float scale);

// Parameters of an integer type. The range is widened to hold zero; symmetric: A = largest
// absolute value, scale = 2A / steps. A scale below the smallest normal float becomes 1 with zero
// point 0. kPowerOfTwo rounds to the position. The zero point 127 of a symmetric uint8 becomes 128.
QuantParams IntegerParams(ValueRange range, ElementType type, bool symmetric, ScaleType scale_type,
                          bool reduce = false);

// Parameters of FLOAT16 and BFLOAT16: scale 1 and zero point 0, or, `scaled`, the scale that maps
// the largest absolute value to 2 (BFLOAT16) or 65504 (FLOAT16).
QuantParams ReducedFloatParams(ValueRange range, ElementType type, bool scaled);

}  // namespace gq::quantize
