#include "common/graph/tensor_view.h"

#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/graph/tensor_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::graph {
namespace {

using onnx::TensorProto;
using testing::ElementsAre;

TensorView Bytes(int32_t dtype, std::vector<int64_t> dims, std::vector<uint8_t> values) {
  std::vector<std::byte> bytes;
  for (const uint8_t value : values) bytes.push_back(std::byte{value});
  return TensorView::Own(dtype, std::move(dims), std::move(bytes));
}

TEST(HalfTest, KnownValues) {
  // IEEE 754 binary16: 0x3C00 = 1, 0x7BFF = 65504, 0x0001 = 2^-24, 0xC000 = -2.
  EXPECT_EQ(HalfToFloat(0x3C00), 1.0f);
  EXPECT_EQ(HalfToFloat(0x7BFF), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0xC000), -2.0f);
  EXPECT_TRUE(std::isinf(HalfToFloat(0x7C00)));
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7E00)));
}

TEST(HalfTest, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 0; code < 0x10000; ++code) {
    const float value = HalfToFloat(static_cast<uint16_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToHalf(value), code);
  }
}

TEST(HalfTest, RoundsToNearestTiesToEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3C00);      // tie, down to even
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3C02);  // tie, up to even
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7BFF);             // below the middle
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);             // the middle becomes infinity
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);             // tie with zero
  EXPECT_EQ(FloatToHalf(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
}

TEST(BFloat16Test, RoundsToNearestTiesToEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 3 * 0x1p-8f), 0x3F82);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(BFloat16ToFloat(0xC040), -3.0f);
}

TEST(TensorViewTest, FourBitElementsLowHalfFirst) {
  const TensorView view = Bytes(TensorProto::INT4, {3}, {0x7F, 0x08});
  EXPECT_THAT(*view.ToInts(), ElementsAre(-1, 7, -8));
  const TensorView unsigned_view = Bytes(TensorProto::UINT4, {3}, {0x7F, 0x08});
  EXPECT_THAT(*unsigned_view.ToInts(), ElementsAre(15, 7, 8));
}

TEST(TensorViewTest, Float8Values) {
  // E4M3FN: 0x7E = 448, 0x38 = 1; E5M2: 0x7B = 57344.
  const TensorView e4m3 = Bytes(TensorProto::FLOAT8E4M3FN, {2}, {0x7E, 0x38});
  EXPECT_THAT(*e4m3.ToFloats(), ElementsAre(448.0f, 1.0f));
  const TensorView e5m2 = Bytes(TensorProto::FLOAT8E5M2, {1}, {0x7B});
  EXPECT_THAT(*e5m2.ToFloats(), ElementsAre(57344.0f));
}

TEST(TensorViewTest, IntegersThatDoNotFitAreAnError) {
  const std::vector<float> values{1.5f, std::nanf("")};
  const auto ints = TensorView::Of<float>({2}, values).ToInts();
  EXPECT_EQ(base::GetReason(ints.status()), base::Reason::kModelInvalid);
}

TEST(TensorViewTest, OutlivesItsSource) {
  TensorView view;
  {
    const std::vector<int64_t> values{4, 5};
    view = TensorView::Of<int64_t>({2}, values);
  }
  EXPECT_THAT(*view.ToInts(), ElementsAre(4, 5));
}

TEST(ElementCountTest, ChecksSignAndOverflow) {
  EXPECT_EQ(*ElementCount(std::vector<int64_t>{2, 3}), 6);
  EXPECT_EQ(*ElementCount(std::vector<int64_t>{}), 1);
  EXPECT_EQ(*ElementCount(std::vector<int64_t>{0, 5}), 0);
  EXPECT_FALSE(ElementCount(std::vector<int64_t>{-1}).ok());
  EXPECT_FALSE(ElementCount(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(ElementCount(std::vector<int64_t>{0, int64_t{1} << 40, int64_t{1} << 40}).ok());
}

TEST(ReadInlineDataTest, TypedFieldsOfNarrowTypes) {
  TensorProto tensor;
  tensor.set_data_type(TensorProto::FLOAT16);
  tensor.add_dims(2);
  tensor.add_int32_data(0x3C00);
  tensor.add_int32_data(0xC000);
  EXPECT_THAT(*ReadInlineData(tensor)->ToFloats(), ElementsAre(1.0f, -2.0f));
  tensor.set_data_type(TensorProto::UINT8);
  tensor.set_int32_data(0, 200);
  tensor.set_int32_data(1, 3);
  EXPECT_THAT(*ReadInlineData(tensor)->ToInts(), ElementsAre(200, 3));
}

TEST(ReadInlineDataTest, WrongAmountOfDataNamesTheTensor) {
  TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_dims(3);
  tensor.set_raw_data("12345678");
  const auto status = ReadInlineData(tensor).status();
  EXPECT_EQ(base::GetReason(status), base::Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("'w'"), testing::HasSubstr("8 bytes"),
                             testing::HasSubstr("12")));
}

}  // namespace
}  // namespace gq::graph
