// Values that go into and come out of a session.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/tensor_view.h"

namespace gq::runtime {

// Name, element type (onnx::TensorProto::DataType) and shape of an input or output; -1 stands for a
// dimension that is not fixed.
struct TensorInfo {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> shape;
};

// "float32 [1, 3, 224, 224]"; "?" for a dimension that is not fixed.
std::string Describe(int32_t dtype, std::span<const int64_t> shape);

// Dense elements in C order, 64-byte aligned, not strings. A copy shares the memory: whoever writes
// through one copy changes all, so writers keep a tensor to themselves.
class Tensor {
 public:
  Tensor() = default;
  // Elements are zero. The type must have a fixed size of whole bytes and every dimension must be
  // known and fit into memory; use Allocate for sizes that come from a file.
  Tensor(int32_t dtype, std::vector<int64_t> shape);
  // DATA_INVALID for a type or a shape that cannot be held, RESOURCE_LIMIT when memory is short.
  static absl::StatusOr<Tensor> Allocate(int32_t dtype, std::vector<int64_t> shape);
  // Borrows memory that `owner` keeps alive (null: the caller does). Nobody writes to it.
  static Tensor Borrow(int32_t dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner);
  template <typename T>
  static Tensor Of(std::vector<int64_t> shape, std::span<const T> values);

  bool empty() const { return size_ == 0; }
  int32_t dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }  // number of elements
  std::span<const std::byte> bytes() const { return bytes_; }
  // Not for borrowed memory.
  std::span<std::byte> mutable_bytes() {
    return {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
  }
  // T must have the size of the element type.
  template <typename T>
  std::span<const T> As() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> MutableAs() {
    return {reinterpret_cast<T*>(const_cast<std::byte*>(bytes_.data())), bytes_.size() / sizeof(T)};
  }
  // True when this tensor owns its memory and no copy shares it.
  bool exclusive() const { return owned_ && owner_.use_count() == 1; }
  // The same elements for the graph part, sharing the memory.
  graph::TensorView View() const { return {dtype_, shape_, bytes_, owner_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  int32_t dtype_ = 0;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool owned_ = false;
};

template <typename T>
Tensor Tensor::Of(std::vector<int64_t> shape, std::span<const T> values) {
  Tensor tensor(graph::DTypeOf<T>(), std::move(shape));
  std::copy(values.begin(), values.end(), tensor.MutableAs<T>().begin());
  return tensor;
}

// First element that is NaN or infinite (float16, bfloat16, float32, float64); -1 when there is
// none or the type has no such values.
int64_t FindNonFinite(const Tensor& tensor);

}  // namespace gq::runtime
