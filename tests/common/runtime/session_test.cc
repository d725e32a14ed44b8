#include "common/runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/runtime/constant_evaluator.h"
#include "onnx/defs/parser.h"

namespace gq::runtime {
namespace {

using base::GetReason;
using base::Reason;
using testing::Each;
using testing::ElementsAre;

graph::Model Parse(const char* text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return *graph::Model::FromProto(std::move(proto));
}

constexpr char kAddModel[] = R"(
<ir_version: 8, opset_import: ["" : 17]>
add (float[1, 3] a, float[1, 3] b) => (float[1, 3] sum, float[N] flat)
<int64[1] all = {-1}>
{
  sum = Add(a, b)
  flat = Reshape(sum, all)
})";

TEST(SessionTest, SignatureAndRun) {
  const auto session = Session::Create(Parse(kAddModel));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(session->inputs().size(), 2u);
  EXPECT_EQ(session->inputs()[1].name, "b");
  EXPECT_THAT(session->outputs()[0].shape, ElementsAre(1, 3));
  EXPECT_EQ(session->OutputIndex("flat"), 1);
  EXPECT_EQ(session->OutputIndex("none"), -1);

  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {10, 20, 30};
  const std::vector<Tensor> inputs = {Tensor::Of<float>({1, 3}, a), Tensor::Of<float>({1, 3}, b)};
  std::vector<Tensor> outputs;
  ASSERT_TRUE(session->Run(inputs, &outputs).ok());
  EXPECT_THAT(outputs[0].As<float>(), ElementsAre(11, 22, 33));
  EXPECT_THAT(outputs[1].As<float>(), ElementsAre(11, 22, 33));

  // The second run writes into the same memory, but not into a tensor that somebody else holds.
  const auto* memory = outputs[0].bytes().data();
  ASSERT_TRUE(session->Run(inputs, &outputs).ok());
  EXPECT_EQ(outputs[0].bytes().data(), memory);
  const Tensor kept = outputs[0];
  ASSERT_TRUE(session->Run(inputs, &outputs).ok());
  EXPECT_NE(outputs[0].bytes().data(), memory);
}

TEST(SessionTest, OneOutputOfSeveral) {
  const auto session = Session::Create(Parse(kAddModel));
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<Tensor> inputs = {Tensor(onnx::TensorProto::FLOAT, {1, 3}),
                                      Tensor(onnx::TensorProto::FLOAT, {1, 3})};
  const std::vector<int> wanted = {1};
  std::vector<Tensor> outputs;
  ASSERT_TRUE(session->Run(inputs, wanted, &outputs).ok());
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(outputs[0].As<float>(), Each(0));
  EXPECT_EQ(GetReason(session->Run(std::span(inputs).first(1), &outputs)),
            Reason::kDataShapeMismatch);
}

// How a large model is run: no copies of its weights are kept, the results are the same.
TEST(SessionTest, LeanOrNotGivesTheSame) {
  std::vector<int8_t> weights(64 * 64);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
dense (float[2, 64] x) => (float[2, 64] y)
<float s = {0.01}, int8 z = {0}>
{
  f = DequantizeLinear(w, s, z)
  y = MatMul(x, f)
})");
  model.AddInitializer("w", graph::TensorView::Of<int8_t>({64, 64}, weights));
  std::vector<float> x(2 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i % 13) - 0.5f;
  const std::vector<Tensor> inputs = {Tensor::Of<float>({2, 64}, x)};
  std::vector<std::vector<float>> results;
  for (const int64_t lean_bytes : {int64_t{0}, int64_t{1} << 40}) {
    const auto session = Session::Create(model, {.lean_bytes = lean_bytes});
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> outputs;
    ASSERT_TRUE(session->Run(inputs, &outputs).ok());
    const auto values = outputs[0].As<float>();
    results.emplace_back(values.begin(), values.end());
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_NEAR(results[0][i], results[1][i], 1e-5f) << i;
  }
}

TEST(SessionTest, InitializersOfTheStoreAreUsedInPlace) {
  graph::Model model = Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
scale (float[1, 1000] x) => (float[1, 1000] y)
{
  y = Mul(x, w)
})");
  const std::vector<float> weights(1000, 3);
  model.AddInitializer("w", graph::TensorView::Of<float>({1000}, weights));
  ASSERT_FALSE(graph::StoreKey(*model.FindInitializer("w")).empty());
  for (const auto level : {OptimizationLevel::kNone, OptimizationLevel::kAll}) {
    const auto session = Session::Create(model, {.optimization = level});
    ASSERT_TRUE(session.ok()) << session.status();
    const std::vector<float> x(1000, 2);
    const std::vector<Tensor> inputs = {Tensor::Of<float>({1, 1000}, x)};
    std::vector<Tensor> outputs;
    ASSERT_TRUE(session->Run(inputs, &outputs).ok());
    EXPECT_THAT(outputs[0].As<float>(), Each(6));
  }
}

TEST(SessionTest, OutputsThatAreNotAsDeclared) {
  const auto session = Session::Create(Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
positive (float[1, 4] x) => (int64[2, 1] where) { where = NonZero(x) })"));
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<float> x = {1, 0, 3, 4};
  const std::vector<Tensor> inputs = {Tensor::Of<float>({1, 4}, x)};
  std::vector<Tensor> outputs;
  for (int run = 0; run < 2; ++run) {
    const auto status = session->Run(inputs, &outputs);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(outputs[0].shape(), ElementsAre(2, 3));
    EXPECT_THAT(outputs[0].As<int64_t>(), ElementsAre(0, 0, 0, 0, 2, 3));
  }
}

TEST(SessionTest, RefusedModelSaysWhy) {
  const auto session = Session::Create(Parse(R"(
<ir_version: 8, opset_import: ["" : 17, "nobody" : 1]>
odd (float[1] x) => (float[1] y) { y = nobody.Unknown(x) })"));
  EXPECT_EQ(GetReason(session.status()), Reason::kRuntimeFailed);
  EXPECT_THAT(std::string(session.status().message()), testing::HasSubstr("Unknown"));
}

TEST(SessionTest, ConstantExpressions) {
  OrtConstantEvaluator evaluator;
  const auto values = evaluator.Evaluate(Parse(R"(
<ir_version: 8, opset_import: ["" : 17]>
constant () => (int64[2] sum)
<int64[2] a = {1, 2}, int64[2] b = {10, 20}>
{ sum = Add(a, b) })"));
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT((*values)[0].As<int64_t>(), ElementsAre(11, 22));
}

}  // namespace
}  // namespace gq::runtime
