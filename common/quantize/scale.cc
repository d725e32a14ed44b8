#include "common/quantize/scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/onnx_pb.h"

namespace gq::quantize {
namespace {

using onnx::TensorProto;

// A range that holds zero and whose width is finite.
ValueRange Widened(ValueRange range) {
  constexpr float kLimit = std::numeric_limits<float>::max() / 2;
  return {std::max(std::min(range.min, 0.0f), -kLimit),
          std::min(std::max(range.max, 0.0f), kLimit)};
}

ValueRange Mirrored(ValueRange range) {
  const float largest = std::max(std::fabs(range.min), std::fabs(range.max));
  return {-largest, largest};
}

}  // namespace

bool IsReducedFloat(ElementType type) {
  return type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16;
}

IntegerRange RangeOf(ElementType type, bool symmetric, bool reduce) {
  int bits = 8;
  bool is_signed = true;
  switch (type) {
    case TensorProto::INT4:
      bits = 4;
      break;
    case TensorProto::UINT4:
      bits = 4;
      is_signed = false;
      break;
    case TensorProto::UINT8:
      is_signed = false;
      break;
    case TensorProto::INT16:
      bits = 16;
      break;
    case TensorProto::UINT16:
      bits = 16;
      is_signed = false;
      break;
    case TensorProto::INT32:
      bits = 32;
      break;
    case TensorProto::UINT32:
      bits = 32;
      is_signed = false;
      break;
    default:
      break;
  }
  const int64_t half = int64_t{1} << (bits - 1);
  if (reduce) return is_signed ? IntegerRange{-half / 2, half / 2} : IntegerRange{0, half - 1};
  if (!is_signed) return {0, 2 * half - 1};
  return {symmetric ? 1 - half : -half, half - 1};
}

int PositionOfScale(double scale) {
  const double held = std::min(std::max(scale, std::ldexp(1.0, -127)), std::ldexp(1.0, 127));
  return static_cast<int>(std::nearbyint(-std::log2(held)));
}

float ScaleOfPosition(int position) { return static_cast<float>(std::ldexp(1.0, -position)); }

bool IsPowerOfTwo(float scale) {
  int exponent = 0;
  return scale > 0 && std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5f;
}

QuantParams IntegerParams(ValueRange range, ElementType type, bool symmetric, ScaleType scale_type,
                          bool reduce) {
  range = Widened(range);
  if (symmetric) range = Mirrored(range);
  const IntegerRange steps = RangeOf(type, symmetric, reduce);

  // The width is a float32, the division a double, as in the formula's source.
  const float width = range.max - range.min;
  const double scale = static_cast<double>(width) / static_cast<double>(steps.max - steps.min);
  QuantParams params{.type = type};
  if (!(scale < std::numeric_limits<float>::min())) {
    params.scale = static_cast<float>(scale);
    params.zero_point =
        static_cast<int64_t>(std::nearbyint(static_cast<double>(steps.min) - range.min / scale));
  }
  if (scale_type == ScaleType::kPowerOfTwo) {
    params.scale = ScaleOfPosition(PositionOfScale(params.scale));
    const float lowest =
        std::min(static_cast<float>(steps.min - params.zero_point) * params.scale, 0.0f);
    params.zero_point =
        static_cast<int64_t>(std::nearbyint(static_cast<float>(steps.min) - lowest / params.scale));
  }
  if (symmetric && type == TensorProto::UINT8 && params.zero_point == 127) params.zero_point = 128;
  return params;
}

QuantParams ReducedFloatParams(ValueRange range, ElementType type, bool scaled) {
  QuantParams params{.type = type};
  if (!scaled) return params;
  range = Mirrored(Widened(range));
  const double largest = type == TensorProto::FLOAT16 ? 65504.0 : 2.0;
  const double scale =
      (static_cast<double>(range.max) - static_cast<double>(range.min)) / (2 * largest);
  if (!(scale < std::numeric_limits<float>::min())) params.scale = static_cast<float>(scale);
  return params;
}

}  // namespace gq::quantize
