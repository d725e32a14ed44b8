#include "common/quantize/quantize_values.h"

#include <bit>
#include <cmath>
#include <limits>

#include "common/quantize/int4_blocks.h"
#include "common/quantize/min_mse.h"
#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {
namespace {

using onnx::TensorProto;

constexpr QuantParams kUnit{.scale = 1, .zero_point = 0, .type = TensorProto::INT8};

TEST(QuantizeValuesTest, RoundsHalfToEvenAndLeavesOutTheLowestInteger) {
  const std::pair<float, int> kRows[] = {
      {0.5f, 0},     {1.5f, 2},     {2.5f, 2},       {-0.5f, 0},     {-1.5f, -2}, {-2.5f, -2},
      {126.5f, 126}, {127.4f, 127}, {-127.6f, -127}, {-128.f, -127}, {200.f, 127}};
  for (const auto& [value, expected] : kRows) EXPECT_EQ(QuantizeValue(value, kUnit), expected);
}

TEST(QuantizeValuesTest, SymmetricUint8AtPosition7) {
  const QuantParams params{.scale = 0.0078125f, .zero_point = 128, .type = TensorProto::UINT8};
  const std::pair<float, int> kRows[] = {{-1.f, 0},   {-0.5f, 64},  {0.f, 128},
                                         {0.5f, 192}, {0.99f, 255}, {1.f, 255}};
  for (const auto& [value, expected] : kRows) EXPECT_EQ(QuantizeValue(value, params), expected);
}

TEST(QuantizeValuesTest, WeightAtPosition8AndBack) {
  const std::vector<float> weight = {0.1f, -0.2f, 0.3f, 0.4f, -0.5f};
  const QuantParams params{.scale = ScaleOfPosition(8), .type = TensorProto::INT8};
  EXPECT_EQ(RoundTrip(weight, params),
            (std::vector<float>{0.1015625f, -0.19921875f, 0.30078125f, 0.3984375f, -0.49609375f}));
}

TEST(QuantizeValuesTest, BFloat16RoundsToNearestEven) {
  const std::pair<uint32_t, uint16_t> kRows[] = {
      {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3DCCCCCD, 0x3DCD}, {0xBDCCCCCD, 0xBDCD},
      {0x40490FDB, 0x4049}, {0x437F8000, 0x4380}, {0x43808000, 0x4380}, {0x80000000, 0x8000}};
  const QuantParams params{.scale = 1, .type = TensorProto::BFLOAT16};
  for (const auto& [bits, expected] : kRows) {
    const auto bytes = QuantizeValues(std::vector<float>{std::bit_cast<float>(bits)}, params);
    EXPECT_EQ(std::to_integer<int>(bytes[0]) | std::to_integer<int>(bytes[1]) << 8, expected);
  }
}

TEST(QuantizeValuesTest, ClampKeepsBFloat16Finite) {
  const float largest = std::numeric_limits<float>::max();
  const QuantParams params{.scale = 1, .type = TensorProto::BFLOAT16};
  EXPECT_TRUE(std::isinf(RoundTrip(std::vector<float>{largest}, params)[0]));
  const auto held = ClampToFinite(std::vector<float>{largest, 0, -largest}, TensorProto::BFLOAT16);
  EXPECT_EQ(RoundTrip(held, params)[0], 3.38953139e38f);
  EXPECT_EQ(held[1], 0);
  EXPECT_EQ(ClampToFinite(std::vector<float>{1e6f}, TensorProto::FLOAT16)[0], 65504.0f);
}

TEST(QuantizeValuesTest, PerChannelAlongAnyAxis) {
  const std::vector<float> values = {1, 10, 2, 20};  // [2, 2]
  const std::vector<int64_t> dims = {2, 2};
  const std::vector<QuantParams> params = {{.scale = 1, .type = TensorProto::INT8},
                                           {.scale = 10, .type = TensorProto::INT8}};
  const auto bytes = QuantizePerChannel(values, dims, 1, params);
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 1);
  EXPECT_EQ(std::to_integer<int>(bytes[1]), 1);
  EXPECT_EQ(std::to_integer<int>(bytes[3]), 2);
  EXPECT_EQ(ChannelValues(values, dims, 1, 1), (std::vector<float>{10, 20}));
  EXPECT_EQ(ChannelValues(values, dims, 0, 1), (std::vector<float>{2, 20}));
}

// Sets and choices computed in plain Python from the rule.
TEST(MinMseTest, ChoosesThePositionOfLeastError) {
  const auto position = [](const std::vector<float>& values) {
    return PositionOfScale(MinMseParams(values, TensorProto::INT8, true).scale);
  };
  EXPECT_EQ(position({0.1f, -0.2f, 0.3f, 0.4f, -0.5f}), 8);
  std::vector<float> outlier = {1.0f};
  outlier.insert(outlier.end(), 20, 0.003f);
  EXPECT_EQ(position(outlier), 6);
  EXPECT_EQ(position({1, -1, 0.5f, 0.25f}), 6);
  std::vector<float> ramp;
  for (int i = -50; i <= 50; ++i) ramp.push_back(0.01f * static_cast<float>(i));
  EXPECT_EQ(position(ramp), 8);
  std::vector<float> wide = {10};
  for (int i = -40; i <= 40; ++i) wide.push_back(0.011f * static_cast<float>(i));
  EXPECT_EQ(position(wide), 3);
}

TEST(MinMseTest, TiesGoToTheLargerScale) {
  EXPECT_EQ(MinMseParams(std::vector<float>(4, 0.0f), TensorProto::INT8, true).scale, 2.0f);
}

TEST(MinMseTest, PairwiseSumIsCloseToTheExactSum) {
  std::vector<float> values(100003, 0.1f);
  EXPECT_NEAR(PairwiseSum(values), 10000.3, 0.01);
}

TEST(Int4BlocksTest, LargestMagnitudeBecomesMinusEight) {
  // K = 3 (one padded block), N = 2.
  const std::vector<float> values = {4, 0, -2, 0, 1, 0};
  const Int4Blocks blocks = QuantizeInt4Blocks(values, 3, 2, 16);
  EXPECT_EQ(blocks.blocks, 1);
  EXPECT_EQ(blocks.scales[0], -0.5f);
  EXPECT_EQ(blocks.scales[1], 0.0f);
  EXPECT_EQ(Int4BlockValue(blocks, 0, 0), 4.0f);
  EXPECT_EQ(Int4BlockValue(blocks, 1, 0), -2.0f);
  EXPECT_EQ(Int4BlockValue(blocks, 2, 0), 1.0f);
  EXPECT_EQ(Int4BlockValue(blocks, 1, 1), 0.0f);
}

TEST(Int4BlocksTest, ScalesBeatTheLargestMagnitudeOverMinusEight) {
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) values.push_back(std::sin(0.7f * static_cast<float>(i * i)));
  values[17] = 1.9f;
  const Int4Blocks blocks = QuantizeInt4Blocks(values, 256, 1, 32);
  double plain = 0;
  double chosen = 0;
  for (int block = 0; block < 8; ++block) {
    float extreme = 0;
    for (int i = 0; i < 32; ++i) {
      const float value = values[block * 32 + i];
      if (std::fabs(value) > std::fabs(extreme)) extreme = value;
    }
    const float scale = extreme / -8;
    for (int i = 0; i < 32; ++i) {
      const float value = values[block * 32 + i];
      const float rounded = std::clamp(std::nearbyint(value / scale), -8.0f, 7.0f) * scale;
      plain += (value - rounded) * (value - rounded);
      const float kept = Int4BlockValue(blocks, block * 32 + i, 0);
      chosen += (value - kept) * (value - kept);
    }
  }
  EXPECT_LT(chosen, 0.9 * plain);
}

}  // namespace
}  // namespace gq::quantize
