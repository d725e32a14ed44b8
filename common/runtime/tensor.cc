#include "common/runtime/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::runtime {
namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<void> AllocateBytes(int64_t bytes) {
  void* memory =
      ::operator new(static_cast<size_t>(std::max<int64_t>(bytes, 1)), kAlignment, std::nothrow);
  if (memory == nullptr) return nullptr;
  return {memory, [](void* block) { ::operator delete(block, kAlignment); }};
}

// True where all exponent bits of an element are set.
template <typename Bits>
int64_t FindAllOnes(std::span<const Bits> elements, Bits mask) {
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < elements.size(); begin += kBlock) {
    const size_t end = std::min(elements.size(), begin + kBlock);
    bool found = false;
    for (size_t i = begin; i < end; ++i) found |= (elements[i] & mask) == mask;
    if (!found) continue;
    for (size_t i = begin; i < end; ++i) {
      if ((elements[i] & mask) == mask) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace

std::string Describe(int32_t dtype, std::span<const int64_t> shape) {
  std::string dims;
  for (const int64_t dim : shape) {
    if (!dims.empty()) dims += ", ";
    base::StrAppend(&dims, dim < 0 ? "?" : base::StrCat(dim));
  }
  return base::StrCat(graph::DTypeName(dtype), " [", dims, "]");
}

absl::StatusOr<Tensor> Tensor::Allocate(int32_t dtype, std::vector<int64_t> shape) {
  const auto fail = [&](base::Reason reason, std::string_view why) {
    return base::MakeError(reason, base::StrCat(Describe(dtype, shape), " ", why));
  };
  const auto count = graph::ElementCount(shape);
  if (!count.ok()) return fail(base::Reason::kDataInvalid, "is not a shape that can be held");
  const auto bytes = graph::ByteSize(dtype, *count);
  if (!bytes.ok()) return fail(base::Reason::kDataInvalid, "has no fixed element size");
  auto memory = AllocateBytes(*bytes);
  if (memory == nullptr) {
    return fail(base::Reason::kResourceLimit,
                base::StrCat("does not fit into memory (", *bytes, " bytes)"));
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.size_ = *count;
  tensor.bytes_ = {static_cast<const std::byte*>(memory.get()), static_cast<size_t>(*bytes)};
  tensor.owner_ = std::move(memory);
  tensor.owned_ = true;
  return tensor;
}

Tensor::Tensor(int32_t dtype, std::vector<int64_t> shape) {
  auto tensor = Allocate(dtype, std::move(shape));
  if (!tensor.ok()) throw std::bad_alloc();
  *this = std::move(*tensor);
  std::memset(mutable_bytes().data(), 0, bytes_.size());
}

Tensor Tensor::Borrow(int32_t dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.size_ = graph::ElementCount(shape).value_or(0);
  tensor.shape_ = std::move(shape);
  tensor.bytes_ = bytes;
  tensor.owner_ = std::move(owner);
  return tensor;
}

int64_t FindNonFinite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case onnx::TensorProto::FLOAT:
      return FindAllOnes<uint32_t>(tensor.As<uint32_t>(), 0x7f800000u);
    case onnx::TensorProto::DOUBLE:
      return FindAllOnes<uint64_t>(tensor.As<uint64_t>(), 0x7ff0000000000000u);
    case onnx::TensorProto::FLOAT16:
      return FindAllOnes<uint16_t>(tensor.As<uint16_t>(), 0x7c00);
    case onnx::TensorProto::BFLOAT16:
      return FindAllOnes<uint16_t>(tensor.As<uint16_t>(), 0x7f80);
    default:
      return -1;
  }
}

}  // namespace gq::runtime
