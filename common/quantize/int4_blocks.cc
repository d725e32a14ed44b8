#include "common/quantize/int4_blocks.h"

#include <algorithm>
#include <cmath>

namespace gq::quantize {
namespace {

float Steps(float ratio) { return std::clamp(std::nearbyint(ratio), -8.0f, 7.0f); }

// Scales that are tried, as parts of the one that maps the largest magnitude to 8 steps.
constexpr int kFewest = 28, kMost = 40, kWhole = 40;

double SquaredError(const std::vector<float>& values, float scale) {
  double error = 0;
  for (const float value : values) {
    const double difference = value - Steps(value / scale) * scale;
    error += difference * difference;
  }
  return error;
}

float BestScale(const std::vector<float>& values) {
  float extreme = 0;
  for (const float value : values) {
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  const float whole = extreme / -8;
  if (whole == 0 || !std::isfinite(1 / whole)) return 0;
  float best = whole;
  double least = SquaredError(values, whole);
  const auto consider = [&](float scale) {
    const double error = SquaredError(values, scale);
    if (error >= least) return;
    least = error;
    best = scale;
  };
  for (int part = kMost; part >= kFewest; --part) {
    const float scale = whole * static_cast<float>(part) / kWhole;
    if (part != kWhole) consider(scale);
    consider(scale * -8 / 7);  // the largest magnitude at +7
  }
  return best;
}

}  // namespace

Int4Blocks QuantizeInt4Blocks(std::span<const float> values, int64_t rows, int64_t columns,
                              int64_t block_size) {
  std::vector<float> block_values;
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
      block_values.clear();
      for (int64_t row = first; row < last; ++row) {
        block_values.push_back(values[row * columns + column]);
      }
      const float scale = BestScale(block_values);
      result.scales[column * result.blocks + block] = scale;
      if (scale == 0) continue;
      std::byte* packed = result.packed.data() + (column * result.blocks + block) * bytes;
      for (int64_t row = first; row < last; ++row) {
        const auto value = static_cast<std::byte>(
            8 + static_cast<int>(Steps(values[row * columns + column] / scale)));
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
