#include "common/runtime/npy_layout.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"

namespace gq::runtime {

RowLayout::RowLayout(const NpyHeader& header) : scalar(header.shape.empty()) {
  if (!scalar) {
    rows = header.shape[0];
    row_shape.assign(header.shape.begin() + 1, header.shape.end());
  }
  for (const int64_t dim : row_shape) row_elements *= dim;
  row_bytes = row_elements * header.element_bytes;
}

std::vector<int64_t> RowLayout::ShapeOf(int64_t count) const {
  if (scalar) return {};
  std::vector<int64_t> shape{count};
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  return shape;
}

void SwapBytes(int64_t element_bytes, std::span<std::byte> bytes) {
  if (element_bytes < 2) return;
  const auto step = static_cast<size_t>(element_bytes);
  for (size_t i = 0; i + step <= bytes.size(); i += step) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + step));
  }
}

absl::StatusOr<Tensor> CopyRows(const NpyHeader& header, std::span<const std::byte> elements,
                                int64_t first, int64_t count) {
  const RowLayout layout(header);
  GQ_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(header.dtype, layout.ShapeOf(count)));
  std::byte* out = tensor.mutable_bytes().data();
  const auto element_bytes = static_cast<size_t>(header.element_bytes);
  if (!header.fortran_order || layout.scalar) {
    std::memcpy(out, elements.data() + first * layout.row_bytes, tensor.bytes().size());
  } else {
    // Element (i0, i1, ...) lies at i0 + d0 * (i1 + d1 * (...)); walk the output in C order.
    const std::vector<int64_t>& dims = header.shape;
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = 1; i < dims.size(); ++i) strides[i] = strides[i - 1] * dims[i - 1];
    std::vector<int64_t> index(dims.size(), 0);
    index[0] = first;
    int64_t source = first;
    for (int64_t written = 0; written < tensor.size(); ++written) {
      std::memcpy(out + static_cast<size_t>(written) * element_bytes,
                  elements.data() + static_cast<size_t>(source) * element_bytes, element_bytes);
      for (size_t axis = dims.size(); axis-- > 0;) {
        source += strides[axis];
        if (++index[axis] < dims[axis] || axis == 0) break;
        source -= strides[axis] * dims[axis];
        index[axis] = 0;
      }
    }
  }
  if (header.big_endian) SwapBytes(header.element_bytes, tensor.mutable_bytes());
  return tensor;
}

}  // namespace gq::runtime
