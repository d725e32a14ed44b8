// Passes that rewrite the float model: what it computes stays.
#include <cmath>

#include "common/base/status.h"
#include "common/quantize/recover/equalization.h"
#include "common/quantize/recover/float_nodes.h"
#include "common/quantize/recover/folding.h"
#include "common/quantize/recover/recover.h"
#include "common/quantize/recover/smoothing.h"
#include "common/quantize/scheme.h"
#include "common/runtime/session.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

std::vector<float> Wave(size_t count, double step) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(4 * std::sin(step * static_cast<double>(i * i + i + 1))));
  }
  return values;
}

std::vector<float> Outcome(const graph::Model& model, const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
  const auto session = runtime::Session::Create(model, {});
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<runtime::Tensor> outputs;
  const std::vector<runtime::Tensor> feed = {runtime::Tensor::Of<float>(shape, Wave(count, 0.37))};
  const absl::Status status = session->Run(feed, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  const auto values = outputs[0].As<float>();
  return {values.begin(), values.end()};
}

// A hard swish as exporters write it, behind it a factor and an offset, and a convolution.
constexpr char kSwish[] = R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,3,3] x) => (float[1,2,3,3] y)
{
  a = Add (x, three)
  b = Clip (a, zero, six)
  c = Mul (x, b)
  d = Div (c, six)
  e = Mul (half, d)
  f = Add (e, offset)
  y = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (f, w, bias)
}
)";

graph::Model Swish() {
  return ParseModel(kSwish, {{"three", {{}, {3}}},
                             {"zero", {{}, {0}}},
                             {"six", {{}, {6}}},
                             {"half", {{1}, {0.5f}}},
                             {"offset", {{1}, {0.3f}}},
                             {"w", {{2, 2, 3, 3}, Wave(36, 0.7)}},
                             {"bias", {{2}, {0.1f, -0.2f}}}});
}

TEST(FoldingTest, HardSwishIsTwoOperatorsAndFactorsAreGone) {
  const graph::Model before = Swish();
  graph::Model after = before;
  EXPECT_EQ(FuseHardSwish({}, &after), 1);
  EXPECT_EQ(CountNodes(after, "Clip"), 0);
  EXPECT_EQ(CountNodes(after, "Div"), 0);
  EXPECT_EQ(CountNodes(after, "HardSigmoid"), 1);
  EXPECT_EQ(FoldFactors({}, &after), 1);
  // x * HardSigmoid(x), plus 0.3 / 0.5, into a convolution of half the weights.
  EXPECT_EQ(after.graph().node_size(), 4);
  const onnx::NodeProto* add = ProducerOf(after, "f");
  ASSERT_NE(add, nullptr);
  const auto offset = after.Data(*after.FindInitializer(add->input(1)));
  ASSERT_TRUE(offset.ok());
  EXPECT_FLOAT_EQ(offset->As<float>()[0], 0.6f);
  EXPECT_THAT(Outcome(after, {1, 2, 3, 3}),
              Pointwise(FloatNear(1e-4f), Outcome(before, {1, 2, 3, 3})));
}

TEST(FoldingTest, NodesThatAreNamedStay) {
  graph::Model model = Swish();
  const std::string clip = ProducerOf(model, "b")->name();
  const std::string half = ProducerOf(model, "e")->name();
  EXPECT_EQ(FuseHardSwish({clip}, &model), 0);
  // The division by six may go all the same.
  EXPECT_EQ(FoldFactors({half, ProducerOf(model, "d")->name()}, &model), 0);
}

// The factor of attention scores goes back into the layer that makes one operand.
TEST(FoldingTest, FactorsGoBackThroughAProduct) {
  const graph::Model before = ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[4,6] x) => (float[4,4] y)
{
  q = Gemm (x, wq, bq)
  k = Gemm (x, wk, bk)
  t = Transpose <perm = [1,0]> (k)
  s = MatMul (q, t)
  d = Div (s, root)
  y = Softmax <axis = -1> (d)
}
)",
                                         {{"wq", {{6, 6}, Wave(36, 0.3)}},
                                          {"bq", {{6}, Wave(6, 0.9)}},
                                          {"wk", {{6, 6}, Wave(36, 0.5)}},
                                          {"bk", {{6}, Wave(6, 0.4)}},
                                          {"root", {{}, {8}}}});
  graph::Model after = before;
  EXPECT_EQ(FoldFactors({}, &after), 1);
  EXPECT_EQ(CountNodes(after, "Div"), 0);
  const auto weight = after.Data(*after.FindInitializer(ProducerOf(after, "q")->input(1)));
  ASSERT_TRUE(weight.ok());
  EXPECT_FLOAT_EQ(weight->As<float>()[3], Wave(36, 0.3)[3] / 8);
  EXPECT_THAT(Outcome(after, {4, 6}), Pointwise(FloatNear(1e-5f), Outcome(before, {4, 6})));
}

// y = (x k)^2 k: a factor that meets itself, or an output that is asked for, stays.
TEST(FoldingTest, SquaresKeepTheirFactor) {
  graph::Model model = ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[2,3] x) => (float[2,3] y)
{
  a = Mul (x, k)
  b = Mul (a, a)
  y = Mul (b, k)
}
)",
                                  {{"k", {{}, {3}}}});
  EXPECT_EQ(FoldFactors({}, &model), 0);
}

TEST(FunctionsTest, WhatLiesBetweenWideFunctionsBelongsToThem) {
  const graph::Model model =
      ParseModel(R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,8] x) => (float[1,2,8] y)
{
  a = Conv <kernel_shape = [1]> (x, w)
  re = Mul (a, a)
  sum = Add (re, tiny)
  root = Sqrt (sum)
  r = Relu (root)
  y = Conv <kernel_shape = [1]> (r, w)
}
)",
                 {{"w", {{2, 2, 1}, {1, 2, 3, 4}}}, {"tiny", {{}, {1e-6f}}}});
  const auto name = [&](const char* tensor) { return ProducerOf(model, tensor)->name(); };
  EXPECT_THAT(WideFunctions(model.graph()), ElementsAre(name("re"), name("sum"), name("root")));
}

class EqualizeTest : public testing::Test {
 protected:
  absl::StatusOr<graph::Model> Equalize(const graph::Model& model) {
    GQ_ASSIGN_OR_RETURN(const auto inputs, runtime::InputSpecs(model));
    GQ_ASSIGN_OR_RETURN(const QuantizeConfig config, ConfigOfScheme("vint8"));
    const std::vector<Sample> samples = {
        {runtime::Tensor::Of<float>({1, 1, 2, 2}, std::vector<float>{1, -0.5f, 0.25f, 0})}};
    base::NullReporter quiet;
    const RecoveryData data = {model, inputs, samples, nullptr, quiet};
    RecoveryState state{.source = model, .config = config};
    GQ_RETURN_IF_ERROR(EqualizeChannels().Run(data, state).status());
    return state.source;
  }

  static std::vector<float> Values(const graph::Model& model, const std::string& name) {
    const auto view = model.Data(*model.FindInitializer(name));
    return {view->As<float>().begin(), view->As<float>().end()};
  }
};

// Channels of 8, 3 and 1 with weights of 8, 2 and 0.5 may grow by 1, floor(8 / 3) and 8 for the
// activations, and by 1, 4 and 16 for the weights.
TEST_F(EqualizeTest, ChannelsGrowByPowersOfTwo) {
  const graph::Model model = ParseModel(
      R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,1,2,2] x) => (float[1,1,2,2] y)
{
  a = Conv <kernel_shape = [1,1]> (x, w1, b1)
  r = Relu (a)
  y = Conv <kernel_shape = [1,1]> (r, w2)
}
)",
      {{"w1", {{3, 1, 1, 1}, {8, 2, 0.5f}}},
       {"b1", {{3}, {0, 1, 0.5f}}},
       {"w2", {{1, 3, 1, 1}, {1, 1, 1}}}});
  const auto equal = Equalize(model);
  ASSERT_TRUE(equal.ok()) << equal.status();
  EXPECT_THAT(Values(*equal, "w1"), ElementsAre(8, 4, 4));
  EXPECT_THAT(Values(*equal, "b1"), ElementsAre(0, 2, 4));
  EXPECT_THAT(Values(*equal, "w2"), ElementsAre(1, 0.5f, 0.125f));
  EXPECT_EQ(Outcome(*equal, {1, 1, 2, 2}), Outcome(model, {1, 1, 2, 2}));
}

// The channels of a that join an input which must stay below 1 shrink towards it, as far as the
// weights behind them may grow by two.
TEST_F(EqualizeTest, JoinedChannelsShrinkTowardsThoseThatStay) {
  const graph::Model model = ParseModel(
      R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,1,2,2] x) => (float[1,1,2,2] y)
{
  a = Conv <kernel_shape = [1,1]> (x, w1)
  r = Relu (a)
  c = Concat <axis = 1> (x, r)
  y = Conv <kernel_shape = [1,1]> (c, w2)
}
)",
      {{"w1", {{1, 1, 1, 1}, {32}}}, {"w2", {{1, 2, 1, 1}, {1, 0.25f}}}});
  const auto equal = Equalize(model);
  ASSERT_TRUE(equal.ok()) << equal.status();
  // 2 * 1 / 0.25 = 8 of the 32 that the join would like.
  EXPECT_THAT(Values(*equal, "w1"), ElementsAre(4));
  EXPECT_THAT(Values(*equal, "w2"), ElementsAre(1, 2));
  EXPECT_EQ(Outcome(*equal, {1, 1, 2, 2}), Outcome(model, {1, 1, 2, 2}));
}

TEST(SmoothingTest, FactorsAreNearestPowersOfTwo) {
  Eigen::RowVectorXf largest(3), weights(3);
  largest << 1, 16, 0;
  weights << 1, 1, 1;
  // Exponents 0, 4, 0 less their mean 4/3: -1.33, 2.67, -1.33.
  Eigen::RowVectorXf expected(3);
  expected << 0.5f, 8, 0.5f;
  EXPECT_EQ(SmoothingFactors(largest, weights, 1), expected);
  // Half of them: -0.67, 1.33, -0.67.
  expected << 0.5f, 2, 0.5f;
  EXPECT_EQ(SmoothingFactors(largest, weights, 0.5), expected);
}

// A normalization with one channel 64 times as large as the others before a dense layer, whose
// output goes to the residual stream: all of it but the layer is in float.
TEST(SmoothingTest, MulsOfPowersOfTwoKeepWhatTheModelComputes) {
  std::vector<float> scale(8, 1.0f);
  scale[5] = 64;
  const graph::Model model = ParseModel(
      R"(
<ir_version: 8, opset_import: ["" : 17]>
net (float[4,8] x) => (float[4,8] y)
{
  [norm] n = LayerNormalization <axis = -1> (x, scale)
  [dense] d = Gemm (n, w, b)
  [sum] s = Add (d, n)
  [last] y = LayerNormalization <axis = -1> (s, ones)
}
)",
      {{"scale", {{8}, scale}},
       {"ones", {{8}, std::vector<float>(8, 1)}},
       {"w", {{8, 8}, Wave(64, 0.3)}},
       {"b", {{8}, Wave(8, 0.9)}}});
  QuantizeConfig config = *ConfigOfScheme("vint8");
  config.exclude = {"norm", "sum", "last"};
  const auto specs = runtime::InputSpecs(model);
  ASSERT_TRUE(specs.ok());
  const std::vector<Sample> samples = {{runtime::Tensor::Of<float>({4, 8}, Wave(32, 0.37))}};
  const auto data = runtime::DataSet::FromSamples(samples, *specs);
  ASSERT_TRUE(data.ok());
  base::NullReporter quiet;
  auto plain = Quantize(model, config, **data, quiet);
  ASSERT_TRUE(plain.ok()) << plain.status();
  RecoveryState state{.source = model, .config = config, .result = *std::move(plain)};
  const auto changed = SmoothChannels().Run({model, *specs, samples, nullptr, quiet}, state);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_GE(*changed, 1);
  EXPECT_TRUE(state.stale);
  EXPECT_EQ(CountNodes(state.source, "Mul"), *changed);
  EXPECT_EQ(state.config.exclude.size(), 3u + static_cast<size_t>(*changed));
  EXPECT_EQ(Outcome(state.source, {4, 8}), Outcome(model, {4, 8}));
}

// One channel 256 times as large as the others: x / s fits one scale, and W takes s.
TEST(SmoothingTest, AnOutlierChannelNoLongerSpoilsTheOthers) {
  FloatRows x(16, 4);
  for (Eigen::Index row = 0; row < x.rows(); ++row) {
    for (Eigen::Index column = 0; column < x.cols(); ++column) {
      x(row, column) = std::sin(static_cast<float>(row * 7 + column * 3)) * (column == 2 ? 256 : 1);
    }
  }
  DenseProblem layer;
  layer.weight = FloatRows::Ones(2, 4);
  layer.weight.col(2).setConstant(1.0f / 256);
  layer.bias = Eigen::RowVectorXf::Zero(2);
  const Eigen::RowVectorXf inputs = Eigen::RowVectorXf::Ones(4);
  const Eigen::RowVectorXf outputs = Eigen::RowVectorXf::Ones(2);
  Eigen::RowVectorXf divide = inputs;
  divide[2] = 256;
  EXPECT_GT(SmoothedError(x, layer, inputs, outputs), 1e-2);
  EXPECT_LT(SmoothedError(x, layer, divide, outputs), 1e-3);
}

}  // namespace
}  // namespace gq::quantize
