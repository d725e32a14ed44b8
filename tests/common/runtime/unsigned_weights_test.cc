#include "common/runtime/unsigned_weights.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/runtime/session.h"
#include "onnx/defs/parser.h"

namespace gq::runtime {
namespace {

graph::Model Parse(const char* text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  auto model = graph::Model::FromProto(std::move(proto));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// One column of 127 and one of -127, which saturate 16 bits as soon as two products are added.
constexpr char kProduct[] = R"(
<ir_version: 8, opset_import: ["" : 17]>
product (uint8[1,4] x) => (int32[1,2] y)
<int8[4,2] w = {127, -127, 127, -127, 127, -127, 127, -127}, uint8 zero = {3}>
{
  y = MatMulInteger (x, w, zero)
})";

// 4 * (255 - 3) * 127 = 128016.
void ExpectTheProduct(const graph::Model& model) {
  const auto session = Session::Create(model, {.optimization = OptimizationLevel::kBasic});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<Tensor> inputs = {
      Tensor::Of<uint8_t>({1, 4}, std::vector<uint8_t>{255, 255, 255, 255})};
  std::vector<Tensor> outputs;
  const absl::Status status = session->Run(inputs, &outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(outputs[0].As<int32_t>()[0], 128016);
  EXPECT_EQ(outputs[0].As<int32_t>()[1], -128016);
}

TEST(UnsignedWeightsTest, SessionsGiveTheExactProductOnEveryCpu) {
  ExpectTheProduct(Parse(kProduct));
}

TEST(UnsignedWeightsTest, WeightsAndZeroPointsMoveBy128) {
  const graph::Model model = Parse(kProduct);
  const auto changed = WithUnsignedWeights(model);
  ASSERT_TRUE(changed.has_value());
  const auto& node = changed->graph().node(0);
  ASSERT_EQ(node.input_size(), 4);
  const auto weight = changed->Data(*changed->FindInitializer(node.input(1)));
  const auto zero_point = changed->Data(*changed->FindInitializer(node.input(3)));
  ASSERT_TRUE(weight.ok() && zero_point.ok());
  EXPECT_EQ(weight->As<uint8_t>()[0], 255);
  EXPECT_EQ(weight->As<uint8_t>()[1], 1);
  EXPECT_EQ(zero_point->As<uint8_t>()[0], 128);
  ExpectTheProduct(*changed);
  EXPECT_EQ(changed->FindInitializer("w"), nullptr);  // which nobody reads any more
  EXPECT_EQ(model.graph().node(0).input_size(), 3);
}

TEST(UnsignedWeightsTest, Int8ActivationsKeepInt8Weights) {
  EXPECT_FALSE(WithUnsignedWeights(Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
product (int8[1,4] x) => (int32[1,2] y)
<int8[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{
  y = MatMulInteger (x, w)
})")));
}

}  // namespace
}  // namespace gq::runtime
