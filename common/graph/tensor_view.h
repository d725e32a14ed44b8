// A read-only view of the elements of one tensor, whatever form they have in the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// Bits of one element of an onnx::TensorProto::DataType; 0 for strings and unknown types.
int BitsPerElement(int32_t dtype);

// True for FLOAT, DOUBLE, FLOAT16, BFLOAT16 and the 8-bit and 4-bit float types.
bool IsFloatType(int32_t dtype);

// True for the signed and unsigned integers of 4 to 64 bits (not BOOL).
bool IsIntegerType(int32_t dtype);

// Lower-case name as numpy and the reports use it: "float32", "int8", "bfloat16", "int4", ...;
// "undefined".
std::string_view DTypeName(int32_t dtype);

// Product of `dims`, 1 for none. MODEL_INVALID when a dimension is negative or the product
// overflows int64.
absl::StatusOr<int64_t> ElementCount(std::span<const int64_t> dims);

// Bytes of `count` elements, densely packed (two 4-bit elements a byte, low half first).
// MODEL_INVALID on overflow or for a type without a fixed size.
absl::StatusOr<int64_t> ByteSize(int32_t dtype, int64_t count);

// float16 and bfloat16 <-> float32. Towards float32 exact; from float32 round to nearest, ties to
// even; too large values become infinity, NaN stays NaN.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
float BFloat16ToFloat(uint16_t value);
uint16_t FloatToBFloat16(float value);

// Elements in little-endian order, densely packed, aligned to the element type. A view keeps its
// memory alive, so it outlives the model it came from; copies are cheap and share the memory, which
// nobody writes.
class TensorView {
 public:
  TensorView() = default;
  // `owner` keeps `bytes` alive; it may be null when something else does.
  TensorView(int32_t dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
             std::shared_ptr<const void> owner);

  // A view that owns a copy of `values`.
  template <typename T>
  static TensorView Of(std::vector<int64_t> dims, std::span<const T> values);

  // A view of elements that it owns. The size of `bytes` must be right for `dtype` and `dims`.
  static TensorView Own(int32_t dtype, std::vector<int64_t> dims, std::vector<std::byte> bytes);

  int32_t dtype() const { return dtype_; }  // onnx::TensorProto::DataType
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t size() const { return size_; }  // number of elements
  bool is_scalar() const { return dims_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The elements as they are. T must have the size of the element type (uint16_t for FLOAT16 and
  // BFLOAT16, bool or uint8_t for BOOL); not for 4-bit types.
  template <typename T>
  std::span<const T> As() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

  // All elements converted. ToFloats rounds double and 64-bit integers to float32; ToInts truncates
  // floats and gives MODEL_INVALID for NaN, infinity and what int64 cannot hold. Strings and
  // complex numbers: MODEL_UNSUPPORTED.
  absl::StatusOr<std::vector<float>> ToFloats() const;
  absl::StatusOr<std::vector<double>> ToDoubles() const;
  absl::StatusOr<std::vector<int64_t>> ToInts() const;

  // One element as a double; `index` must be in range and the type numeric.
  double At(int64_t index) const;

 private:
  int32_t dtype_ = onnx::TensorProto::UNDEFINED;
  std::vector<int64_t> dims_;
  int64_t size_ = 0;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

// The onnx type of a C++ element type.
template <typename T>
constexpr int32_t DTypeOf();
template <>
constexpr int32_t DTypeOf<float>() {
  return onnx::TensorProto::FLOAT;
}
template <>
constexpr int32_t DTypeOf<double>() {
  return onnx::TensorProto::DOUBLE;
}
template <>
constexpr int32_t DTypeOf<int8_t>() {
  return onnx::TensorProto::INT8;
}
template <>
constexpr int32_t DTypeOf<uint8_t>() {
  return onnx::TensorProto::UINT8;
}
template <>
constexpr int32_t DTypeOf<int16_t>() {
  return onnx::TensorProto::INT16;
}
template <>
constexpr int32_t DTypeOf<uint16_t>() {
  return onnx::TensorProto::UINT16;
}
template <>
constexpr int32_t DTypeOf<int32_t>() {
  return onnx::TensorProto::INT32;
}
template <>
constexpr int32_t DTypeOf<uint32_t>() {
  return onnx::TensorProto::UINT32;
}
template <>
constexpr int32_t DTypeOf<int64_t>() {
  return onnx::TensorProto::INT64;
}
template <>
constexpr int32_t DTypeOf<uint64_t>() {
  return onnx::TensorProto::UINT64;
}

template <typename T>
TensorView TensorView::Of(std::vector<int64_t> dims, std::span<const T> values) {  // NOLINT: moved
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return Own(DTypeOf<T>(), std::move(dims),
             std::vector<std::byte>(begin, begin + values.size_bytes()));
}

}  // namespace gq::graph
