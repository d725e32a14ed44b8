// 4-bit weights in blocks along the reduced dimension, as com.microsoft's MatMulNBits stores them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gq::quantize {

struct Int4Blocks {
  int64_t rows = 0;     // K, the reduced dimension
  int64_t columns = 0;  // N
  int64_t block_size = 32;
  int64_t blocks = 0;  // a column: ceil(K / block_size)
  // [N][blocks][block_size / 2] bytes, two values a byte, low half first; a value v stands for
  // (v - 8) * scale.
  std::vector<std::byte> packed;
  std::vector<float> scales;  // [N][blocks]
};

// `values` are [K, N] in row-major order. The scale of a block is the one with the least squared
// error of those near the largest magnitude over -8 (which uses all 16 steps) and over 8; a block
// of zeros has scale 0. block_size is a power of two, 16 or more.
Int4Blocks QuantizeInt4Blocks(std::span<const float> values, int64_t rows, int64_t columns,
                              int64_t block_size);

// What one stored element stands for.
float Int4BlockValue(const Int4Blocks& blocks, int64_t row, int64_t column);

}  // namespace gq::quantize
