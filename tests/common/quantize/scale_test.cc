#include "common/quantize/scale.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {
namespace {

using onnx::TensorProto;

QuantParams Int8Position(float largest) {
  return IntegerParams({-largest, largest}, TensorProto::INT8, true, ScaleType::kPowerOfTwo);
}

// Reference table: position = round_half_even(-log2(A / 127)), computed by hand from the formula.
TEST(ScaleTest, PositionsOfSymmetricInt8) {
  const std::pair<float, int> kRows[] = {
      {0.001f, 17}, {0.01f, 14}, {0.1f, 10},  {0.25f, 9},   {0.5f, 8},    {0.75f, 7},   {1.0f, 7},
      {1.5f, 6},    {2.6f, 6},   {3.0f, 5},   {5.0f, 5},    {6.0f, 4},    {10.0f, 4},   {50.0f, 1},
      {100.0f, 0},  {127.0f, 0}, {128.0f, 0}, {200.0f, -1}, {281.0f, -1}, {1000.0f, -3}};
  for (const auto& [largest, position] : kRows) {
    const QuantParams params = Int8Position(largest);
    EXPECT_EQ(PositionOfScale(params.scale), position) << largest;
    EXPECT_EQ(params.zero_point, 0);
  }
}

TEST(ScaleTest, RangeOfZerosHasScaleOne) {
  EXPECT_EQ(Int8Position(0).scale, 1.0f);
  EXPECT_EQ(IntegerParams({0, 0}, TensorProto::INT8, true, ScaleType::kFloat32).scale, 1.0f);
}

TEST(ScaleTest, SymmetricUint8HasZeroPoint128) {
  const QuantParams params =
      IntegerParams({-1, 1}, TensorProto::UINT8, true, ScaleType::kPowerOfTwo);
  EXPECT_EQ(params.zero_point, 128);
  EXPECT_EQ(params.scale, 0.0078125f);  // 2 / 255 -> position 7
}

TEST(ScaleTest, AsymmetricRangeHoldsZeroAndBothEnds) {
  const QuantParams params =
      IntegerParams({0.5f, 2.0f}, TensorProto::INT8, false, ScaleType::kFloat32);
  EXPECT_FLOAT_EQ(params.scale, 2.0f / 255);
  EXPECT_EQ(params.zero_point, -128);
}

TEST(ScaleTest, InfiniteRangeStaysFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const QuantParams params =
      IntegerParams({-1, infinity}, TensorProto::INT8, true, ScaleType::kFloat32);
  // Half the largest float on each side, 254 steps: 1.33e36.
  EXPECT_NEAR(params.scale / 1.3397e36, 1, 1e-3);
}

TEST(ScaleTest, ScaledBFloat16MapsTheLargestValueToTwo) {
  EXPECT_EQ(ReducedFloatParams({-3, 5}, TensorProto::BFLOAT16, true).scale, 2.5f);
  EXPECT_EQ(ReducedFloatParams({-3, 5}, TensorProto::BFLOAT16, false).scale, 1.0f);
}

TEST(ScaleTest, RangesOfTypes) {
  EXPECT_EQ(RangeOf(TensorProto::INT8, true).min, -127);
  EXPECT_EQ(RangeOf(TensorProto::INT8, false).min, -128);
  EXPECT_EQ(RangeOf(TensorProto::UINT8, true).max, 255);
  EXPECT_EQ(RangeOf(TensorProto::INT16, true).min, -32767);
  EXPECT_EQ(RangeOf(TensorProto::INT8, true, true).max, 64);
}

}  // namespace
}  // namespace gq::quantize
