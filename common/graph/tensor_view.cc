#include "common/graph/tensor_view.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;
using onnx::TensorProto;

// Value of a small float without infinities in most variants: sign, `exponent_bits`,
// `mantissa_bits`.
double SmallFloat(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (exponent_bits + mantissa_bits)) & 1;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -magnitude : magnitude;
}

double Float8ToDouble(int32_t dtype, uint8_t code) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  switch (dtype) {
    case TensorProto::FLOAT8E4M3FN:
      return (code & 0x7f) == 0x7f ? nan : SmallFloat(code, 4, 3, 7);
    case TensorProto::FLOAT8E4M3FNUZ:
      return code == 0x80 ? nan : SmallFloat(code, 4, 3, 8);
    case TensorProto::FLOAT8E5M2:
      if ((code & 0x7f) > 0x7c) return nan;
      if ((code & 0x7f) == 0x7c) {
        return code & 0x80 ? -std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::infinity();
      }
      return SmallFloat(code, 5, 2, 15);
    case TensorProto::FLOAT8E5M2FNUZ:
      return code == 0x80 ? nan : SmallFloat(code, 5, 2, 16);
    default:  // FLOAT8E8M0: an exponent alone
      return code == 0xff ? nan : std::ldexp(1.0, static_cast<int>(code) - 127);
  }
}

bool IsNumeric(int32_t dtype) {
  return IsFloatType(dtype) || IsIntegerType(dtype) || dtype == TensorProto::BOOL;
}

// Calls `sink` with every element as its own C++ type, widened to a standard arithmetic type.
template <typename Sink>
void ForEachElement(const TensorView& view, Sink sink) {
  const auto plain = [&]<typename T>(T) {
    for (const T value : view.As<T>()) sink(value);
  };
  switch (view.dtype()) {
    case TensorProto::FLOAT:
      return plain(float{});
    case TensorProto::DOUBLE:
      return plain(double{});
    case TensorProto::INT8:
      return plain(int8_t{});
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      return plain(uint8_t{});
    case TensorProto::INT16:
      return plain(int16_t{});
    case TensorProto::UINT16:
      return plain(uint16_t{});
    case TensorProto::INT32:
      return plain(int32_t{});
    case TensorProto::UINT32:
      return plain(uint32_t{});
    case TensorProto::INT64:
      return plain(int64_t{});
    case TensorProto::UINT64:
      return plain(uint64_t{});
    case TensorProto::FLOAT16:
      for (const uint16_t value : view.As<uint16_t>()) sink(HalfToFloat(value));
      return;
    case TensorProto::BFLOAT16:
      for (const uint16_t value : view.As<uint16_t>()) sink(BFloat16ToFloat(value));
      return;
    default:
      for (int64_t i = 0; i < view.size(); ++i) sink(view.At(i));
  }
}

absl::Status NotNumeric(int32_t dtype) {
  return base::MakeError(Reason::kModelUnsupported, StrCat("a tensor of type ", DTypeName(dtype),
                                                           " where numbers are needed"));
}

}  // namespace

int BitsPerElement(int32_t dtype) {
  switch (dtype) {
    case TensorProto::INT4:
    case TensorProto::UINT4:
    case TensorProto::FLOAT4E2M1:
      return 4;
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::BOOL:
    case TensorProto::FLOAT8E4M3FN:
    case TensorProto::FLOAT8E4M3FNUZ:
    case TensorProto::FLOAT8E5M2:
    case TensorProto::FLOAT8E5M2FNUZ:
    case TensorProto::FLOAT8E8M0:
      return 8;
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return 16;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return 32;
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::COMPLEX64:
      return 64;
    case TensorProto::COMPLEX128:
      return 128;
    default:
      return 0;
  }
}

bool IsFloatType(int32_t dtype) {
  switch (dtype) {
    case TensorProto::FLOAT:
    case TensorProto::DOUBLE:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::FLOAT8E4M3FN:
    case TensorProto::FLOAT8E4M3FNUZ:
    case TensorProto::FLOAT8E5M2:
    case TensorProto::FLOAT8E5M2FNUZ:
    case TensorProto::FLOAT8E8M0:
    case TensorProto::FLOAT4E2M1:
      return true;
    default:
      return false;
  }
}

bool IsIntegerType(int32_t dtype) {
  switch (dtype) {
    case TensorProto::INT4:
    case TensorProto::UINT4:
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::INT32:
    case TensorProto::UINT32:
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return true;
    default:
      return false;
  }
}

std::string_view DTypeName(int32_t dtype) {
  switch (dtype) {
    case TensorProto::FLOAT:
      return "float32";
    case TensorProto::DOUBLE:
      return "float64";
    case TensorProto::FLOAT16:
      return "float16";
    case TensorProto::BFLOAT16:
      return "bfloat16";
    case TensorProto::INT4:
      return "int4";
    case TensorProto::UINT4:
      return "uint4";
    case TensorProto::INT8:
      return "int8";
    case TensorProto::UINT8:
      return "uint8";
    case TensorProto::INT16:
      return "int16";
    case TensorProto::UINT16:
      return "uint16";
    case TensorProto::INT32:
      return "int32";
    case TensorProto::UINT32:
      return "uint32";
    case TensorProto::INT64:
      return "int64";
    case TensorProto::UINT64:
      return "uint64";
    case TensorProto::BOOL:
      return "bool";
    case TensorProto::STRING:
      return "string";
    case TensorProto::COMPLEX64:
      return "complex64";
    case TensorProto::COMPLEX128:
      return "complex128";
    case TensorProto::FLOAT8E4M3FN:
      return "float8e4m3fn";
    case TensorProto::FLOAT8E4M3FNUZ:
      return "float8e4m3fnuz";
    case TensorProto::FLOAT8E5M2:
      return "float8e5m2";
    case TensorProto::FLOAT8E5M2FNUZ:
      return "float8e5m2fnuz";
    case TensorProto::FLOAT8E8M0:
      return "float8e8m0";
    case TensorProto::FLOAT4E2M1:
      return "float4e2m1";
    default:
      return "undefined";
  }
}

absl::StatusOr<int64_t> ElementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      return base::MakeError(Reason::kModelInvalid,
                             StrCat("a tensor has the negative dimension ", dim));
    }
    empty = empty || dim == 0;
    // Zeros are left out so that an overflow beside a zero is seen too.
    if (dim != 0 && __builtin_mul_overflow(count, dim, &count)) {
      return base::MakeError(
          Reason::kModelInvalid,
          StrCat("the dimensions [", base::StrJoin(dims, ", "), "] of a tensor overflow 64 bits"));
    }
  }
  return empty ? 0 : count;
}

absl::StatusOr<int64_t> ByteSize(int32_t dtype, int64_t count) {
  const int bits = BitsPerElement(dtype);
  if (bits == 0) {
    return base::MakeError(Reason::kModelInvalid, StrCat("elements of type ", DTypeName(dtype),
                                                         " (", dtype, ") have no fixed size"));
  }
  int64_t total = 0;
  if (__builtin_mul_overflow(count, int64_t{bits}, &total) ||
      total > std::numeric_limits<int64_t>::max() - 7) {
    return base::MakeError(Reason::kModelInvalid,
                           StrCat("a tensor of ", count, " elements is too large"));
  }
  return (total + 7) / 8;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, step 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
}

float BFloat16ToFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

TensorView::TensorView(int32_t dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner)
    : dtype_(dtype), dims_(std::move(dims)), size_(1), bytes_(bytes), owner_(std::move(owner)) {
  for (const int64_t dim : dims_) size_ *= dim;
}

TensorView TensorView::Own(int32_t dtype, std::vector<int64_t> dims, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return TensorView(dtype, std::move(dims), *owner, owner);
}

absl::StatusOr<std::vector<float>> TensorView::ToFloats() const {
  if (!IsNumeric(dtype_)) return NotNumeric(dtype_);
  std::vector<float> result;
  result.reserve(size_);
  ForEachElement(*this, [&](auto value) { result.push_back(static_cast<float>(value)); });
  return result;
}

absl::StatusOr<std::vector<double>> TensorView::ToDoubles() const {
  if (!IsNumeric(dtype_)) return NotNumeric(dtype_);
  std::vector<double> result;
  result.reserve(size_);
  ForEachElement(*this, [&](auto value) { result.push_back(static_cast<double>(value)); });
  return result;
}

absl::StatusOr<std::vector<int64_t>> TensorView::ToInts() const {
  if (!IsNumeric(dtype_)) return NotNumeric(dtype_);
  std::vector<int64_t> result;
  result.reserve(size_);
  bool fits = true;
  ForEachElement(*this, [&](auto value) {
    using T = decltype(value);
    if constexpr (std::is_floating_point_v<T>) {
      const double wide = value;
      if (!(wide >= -0x1p63 && wide < 0x1p63)) {
        fits = false;
        return;
      }
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        fits = false;
        return;
      }
    }
    result.push_back(static_cast<int64_t>(value));
  });
  if (!fits) {
    return base::MakeError(Reason::kModelInvalid,
                           "a tensor holds values that do not fit a 64-bit integer");
  }
  return result;
}

double TensorView::At(int64_t index) const {
  const auto nibble = [&] {
    const auto byte = static_cast<uint8_t>(bytes_[index / 2]);
    return index % 2 == 0 ? byte & 0xf : byte >> 4;
  };
  switch (dtype_) {
    case TensorProto::FLOAT:
      return As<float>()[index];
    case TensorProto::DOUBLE:
      return As<double>()[index];
    case TensorProto::FLOAT16:
      return HalfToFloat(As<uint16_t>()[index]);
    case TensorProto::BFLOAT16:
      return BFloat16ToFloat(As<uint16_t>()[index]);
    case TensorProto::INT8:
      return As<int8_t>()[index];
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      return As<uint8_t>()[index];
    case TensorProto::INT16:
      return As<int16_t>()[index];
    case TensorProto::UINT16:
      return As<uint16_t>()[index];
    case TensorProto::INT32:
      return As<int32_t>()[index];
    case TensorProto::UINT32:
      return As<uint32_t>()[index];
    case TensorProto::INT64:
      return static_cast<double>(As<int64_t>()[index]);
    case TensorProto::UINT64:
      return static_cast<double>(As<uint64_t>()[index]);
    case TensorProto::INT4:
      return (nibble() ^ 8) - 8;
    case TensorProto::UINT4:
      return nibble();
    case TensorProto::FLOAT4E2M1:
      return SmallFloat(nibble(), 2, 1, 1);
    default:
      return Float8ToDouble(dtype_, As<uint8_t>()[index]);
  }
}

}  // namespace gq::graph
