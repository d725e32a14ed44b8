// Order of the elements of a numpy array: rows along the first axis, byte and index order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/npy.h"

namespace gq::runtime {

// Rows of an array along its first axis; a scalar is one row.
struct RowLayout {
  explicit RowLayout(const NpyHeader& header);
  // Shape of `count` rows together.
  std::vector<int64_t> ShapeOf(int64_t count) const;

  std::vector<int64_t> row_shape;
  int64_t rows = 1;
  int64_t row_elements = 1;
  int64_t row_bytes = 0;
  bool scalar = false;
};

// Copies rows out of all `elements` of an array into C order and native byte order.
absl::StatusOr<Tensor> CopyRows(const NpyHeader& header, std::span<const std::byte> elements,
                                int64_t first, int64_t count);

// Turns the bytes of every element of `bytes` round.
void SwapBytes(int64_t element_bytes, std::span<std::byte> bytes);

}  // namespace gq::runtime
