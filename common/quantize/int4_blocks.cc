#include "common/quantize/int4_blocks.h"

#include <algorithm>
#include <cmath>

namespace gq::quantize {

Int4Blocks QuantizeInt4Blocks(std::span<const float> values, int64_t rows, int64_t columns,
                              int64_t block_size) {
  Int4Blocks result{.rows = rows, .columns = columns, .block_size = block_size};
  result.blocks = (rows + block_size - 1) / block_size;
  const int64_t bytes = block_size / 2;
  // Rows behind the last one hold the value that stands for zero.
  result.packed.assign(static_cast<size_t>(columns * result.blocks * bytes), std::byte{0x88});
  result.scales.assign(static_cast<size_t>(columns * result.blocks), 0.0f);
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t block = 0; block < result.blocks; ++block) {
      const int64_t first = block * block_size;
      const int64_t last = std::min(rows, first + block_size);
      float extreme = 0;
      for (int64_t row = first; row < last; ++row) {
        const float value = values[row * columns + column];
        if (std::fabs(value) > std::fabs(extreme)) extreme = value;
      }
      const float scale = extreme / -8;
      result.scales[column * result.blocks + block] = scale;
      if (scale == 0) continue;
      std::byte* packed = result.packed.data() + (column * result.blocks + block) * bytes;
      for (int64_t row = first; row < last; ++row) {
        const float steps = std::nearbyint(values[row * columns + column] / scale) + 8;
        const auto value = static_cast<std::byte>(std::clamp(steps, 0.0f, 15.0f));
        const int64_t place = row - first;
        std::byte& byte = packed[place / 2];
        byte = place % 2 == 0 ? (byte & std::byte{0xF0}) | value
                              : (byte & std::byte{0x0F}) | value << 4;
      }
    }
  }
  return result;
}

float Int4BlockValue(const Int4Blocks& blocks, int64_t row, int64_t column) {
  const int64_t block = column * blocks.blocks + row / blocks.block_size;
  const int64_t place = row % blocks.block_size;
  const std::byte byte = blocks.packed[block * (blocks.block_size / 2) + place / 2];
  const int value = std::to_integer<int>(place % 2 == 0 ? byte & std::byte{0x0F} : byte >> 4);
  return static_cast<float>(value - 8) * blocks.scales[block];
}

}  // namespace gq::quantize
