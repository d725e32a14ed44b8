#include "common/calibrate/switched_rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "onnx/defs/parser.h"

namespace gq::calibrate {
namespace {

using runtime::Tensor;
using testing::ElementsAre;

graph::Model Parse(const char* text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return *graph::Model::FromProto(std::move(proto));
}

std::vector<float> Rounded(const Rounding& rounding, const std::vector<float>& values) {
  std::vector<float> result(values.size());
  Round(rounding, values, result);
  return result;
}

TEST(RoundTest, IntegersRoundHalfToEvenAndSaturate) {
  const Rounding rounding{.kind = Rounding::Kind::kInteger, .scale = 0.5f};
  EXPECT_THAT(Rounded(rounding, {0.25f, 0.75f, -0.25f, 0.3f, 63.9f, -70, 0, 1.25f, 100, -0.75f}),
              ElementsAre(0, 1, 0, 0.5f, 63.5f, -64, 0, 1, 63.5f, -1));
  const Rounding shifted{
      .kind = Rounding::Kind::kInteger, .scale = 1, .zero_point = 100, .qmin = 0, .qmax = 255};
  EXPECT_THAT(Rounded(shifted, {-101, -100, 0, 155, 156, 2.5f, 3.5f, 1, 1, 1.6f}),
              ElementsAre(-100, -100, 0, 155, 155, 2, 4, 1, 1, 2));
}

TEST(RoundTest, Bfloat16) {
  const Rounding rounding{.kind = Rounding::Kind::kBfloat16};
  // 1 + 2^-8 lies half way between two values of 8 bits and goes to the even one.
  const std::vector<float> values = {1.00390625f,
                                     1.01171875f,
                                     -1.0050f,
                                     3.4028235e38f,
                                     std::numeric_limits<float>::infinity(),
                                     std::bit_cast<float>(0x7fffffffu),
                                     0,
                                     -0.0f,
                                     1.00390625f,
                                     std::bit_cast<float>(0x7f800001u)};
  const std::vector<float> rounded = Rounded(rounding, values);
  EXPECT_EQ(rounded[0], 1);
  EXPECT_EQ(rounded[1], 1.015625f);
  EXPECT_EQ(rounded[2], -1.0078125f);
  EXPECT_TRUE(std::isinf(rounded[3]));
  EXPECT_TRUE(std::isinf(rounded[4]));
  EXPECT_TRUE(std::isnan(rounded[5]));
  EXPECT_EQ(rounded[8], 1);
  EXPECT_TRUE(std::isnan(rounded[9]));
}

TEST(RoundTest, Float16) {
  EXPECT_THAT(Rounded({.kind = Rounding::Kind::kFloat16}, {1.0004883f, 65504, 0.1f}),
              ElementsAre(1, 65504, 0.0999755859375f));
}

TEST(SwitchedModelTest, RoundingsChangeBetweenRuns) {
  const graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
sum (float[1, 2] x) => (float[1, 2] y)
<float[1] half = {0.5}, float[1, 2] inner>
{
  inner = Add(x, half)
  y = Add(inner, x)
})");
  const std::vector<std::string> tensors = {"x", "inner", "y", "half"};
  const auto switched = SwitchedModel::Create(model, tensors, {});
  ASSERT_TRUE(switched.ok()) << switched.status();
  EXPECT_EQ((*switched)->left_out().at("half"), "a constant");
  const std::vector<float> x = {1.25f, -2};
  const std::vector<Tensor> inputs = {Tensor::Of<float>({1, 2}, x)};
  const auto run = [&] {
    std::vector<Tensor> outputs;
    EXPECT_TRUE((*switched)->session().Run(inputs, &outputs).ok());
    const auto values = outputs[0].As<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_THAT(run(), ElementsAre(3, -3.5f));
  const Rounding whole{.kind = Rounding::Kind::kInteger, .scale = 1};
  EXPECT_TRUE((*switched)->Set("inner", whole));
  EXPECT_THAT(run(), ElementsAre(3.25f, -4));  // 1.75 -> 2, -1.5 -> -2
  EXPECT_TRUE((*switched)->Set("x", whole));
  EXPECT_THAT(run(), ElementsAre(3, -4));  // 1.25 -> 1, then 1.5 -> 2
  (*switched)->ClearAll();
  EXPECT_TRUE((*switched)->Set("y", whole));
  EXPECT_THAT(run(), ElementsAre(3, -4));
  EXPECT_FALSE((*switched)->Set("half", whole));
  EXPECT_THAT(inputs[0].As<float>(), ElementsAre(1.25f, -2));  // never written
}

}  // namespace
}  // namespace gq::calibrate
