// Where the default is better than Compatibility::kQuark: each row of the table of the engine's
// specification, section 5.
#include <cmath>
#include <limits>

#include "common/base/text.h"
#include "common/graph/optimize.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/presets.h"
#include "common/quantize/scheme.h"
#include "common/runtime/constant_evaluator.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

QuantizeConfig Quark(QuantizeConfig config) {
  config.compatibility = Compatibility::kQuark;
  return config;
}

double Gain(const std::string& name, const std::string& prepared, const QuantizeConfig& config) {
  const auto vectors = LoadCase(name, prepared);
  EXPECT_TRUE(vectors.ok()) << vectors.status();
  return SignalToNoiseOf(*vectors, config) - SignalToNoiseOf(*vectors, Quark(config));
}

// Quark multiplies the moved weights by a power of two: 8.6 and 10.1 dB in the vectors.
TEST(ImprovementsTest, MovedWeightsAreQuantizedAgain) {
  GQ_NEED_VECTORS();
  EXPECT_GT(Gain("extreme_weights", "pre_1.onnx", QuarkXint8()), 5);
  EXPECT_GT(Gain("huge_bias", "pre_1.onnx", QuarkXint8()), 3);
}

TEST(ImprovementsTest, ExclusionFollowsTheFusedNode) {
  GQ_NEED_VECTORS();
  const auto vectors = LoadCase("conv_bn_relu", "pre_1.onnx");
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  graph::Model optimized = vectors->model;
  runtime::OrtConstantEvaluator evaluator;
  base::NullReporter reporter;
  const auto report = graph::OptimizeGraph(optimized, {}, evaluator, reporter);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string fused = report->CurrentName("/stem/conv1");
  ASSERT_NE(FindNode(optimized, fused), nullptr) << fused;

  ModelOrigin origin{&vectors->model.graph(), report->renamed_nodes};
  QuantizeConfig config = Vint8Npu();
  config.exclude = {"/stem/conv1"};
  const auto result = QuantizeWith(optimized, config, vectors->calibration, {.origin = &origin});
  ASSERT_TRUE(result.ok()) << result.status();
  const onnx::NodeProto* conv = FindNode(result->model, fused);
  ASSERT_NE(conv, nullptr);
  const onnx::NodeProto* weight = ProducerOf(result->model, conv->input(1));
  EXPECT_EQ(weight, nullptr) << "the weight of the excluded node is quantized";
}

// Values of this case reach the bound 6: Quark's Relu costs 10 dB in the vectors.
TEST(ImprovementsTest, ClipStaysWhereItCutsValues) {
  GQ_NEED_VECTORS();
  EXPECT_GT(Gain("conv_clip6", "pre_0.onnx", QuarkVint8()), 3);
}

// A range holds zero always: the saturation of [0, 2] is not the Clip to [0.5, 2].
TEST(ImprovementsTest, ClipThatKeepsValuesOffZeroStays) {
  for (const char* bounds :
       {"float low = {0.5}, float high = {2}", "float low = {-2}, float high = {-0.5}",
        "float low = {0.5}, float high = {-0.5}"}) {
    const graph::Model model = ParseModel(base::StrCat(
        R"(<ir_version: 8, opset_import: ["" : 17]>
           g (float[4,4] x) => (float[4,4] y)
           <float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}, )",
        bounds, "> {\n a = MatMul(x, w)\n y = Clip(a, low, high) }"));
    const auto reference = RunModel(model);
    const auto result = QuantizeWith(model, *ConfigOfScheme("W8-A8"));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(SignalToNoise(*reference, *RunModel(result->model)), 20) << bounds;
  }
}

constexpr const char* kIdleClip = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (float[1,4] x) => (float[1,4] y)
  <float low = {0}, float high = {1000}, float four = {4}> {
    a = Mul(x, four)
    [clip] b = Clip(a, low, high)
    y = Add(b, four)
  })";

TEST(ImprovementsTest, ClipThatCutsNothingBecomesRelu) {
  QuantizeConfig config = Vint8Npu();
  config.options.convert_clip_to_relu = true;
  const auto result = QuantizeWith(ParseModel(kIdleClip), config);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(FindNode(result->model, "clip")->op_type(), "Relu");
}

TEST(ImprovementsTest, GraphOutputWithQuantizedReadersIsQuantizedToo) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,4] inner, float[1,4] y)
    <float two = {2}, float three = {3}> {
      inner = Mul(x, two)
      a = Mul(inner, three)
      b = Add(inner, three)
      y = Add(a, b)
    })");
  const auto ours = QuantizeWith(model, Vint8Npu());
  const auto quarks = QuantizeWith(model, Quark(Vint8Npu()));
  ASSERT_TRUE(ours.ok() && quarks.ok()) << ours.status() << quarks.status();
  EXPECT_EQ(ProducerOf(ours->model, "inner")->op_type(), "DequantizeLinear");
  EXPECT_EQ(ProducerOf(quarks->model, "inner")->op_type(), "Mul");
}

// Quark gives both readers the bias at the scale of the first, which is too coarse for the second.
TEST(ImprovementsTest, SharedInt32BiasIsOneForEachReader) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,2] x) => (float[4,2] y, float[4,2] z)
    <float[2,2] w = {1, 0.5, 0.25, 1}, float[2] b = {0.3, -0.2}, float hundred = {100},
     float tenth = {0.1}> {
      large = Mul(x, hundred)
      small = Mul(x, tenth)
      [first] y = Gemm(large, w, b)
      [second] z = Gemm(small, w, b)
    })");
  QuantizeConfig config = *ConfigOfScheme("W8-A8");
  const auto ours = QuantizeWith(model, config);
  const auto quarks = QuantizeWith(model, Quark(config));
  ASSERT_TRUE(ours.ok() && quarks.ok()) << ours.status() << quarks.status();
  EXPECT_NE(FindNode(ours->model, "first")->input(2), FindNode(ours->model, "second")->input(2));
  EXPECT_EQ(FindNode(quarks->model, "first")->input(2),
            FindNode(quarks->model, "second")->input(2));
  Outputs reference = *RunModel(model);
  reference.erase("y");
  EXPECT_GT(SignalToNoise(reference, *RunModel(ours->model)),
            SignalToNoise(reference, *RunModel(quarks->model)) + 1);
}

TEST(ImprovementsTest, BFloat16WeightsStayFinite) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x) => (float[1,2] y)
    <float[2,2] w = {3.4028234e38, 0.5, 0.25, 1}> {
      [mm] a = MatMul(x, w)
      [relu] y = Relu(a)
    })");
  const std::vector<std::string> nodes = {"mm"};
  QuantizeConfig config = Vint8Npu();
  PromoteNodes(nodes, onnx::TensorProto::BFLOAT16, MixedForm::kCast, &config);
  for (const bool quark : {false, true}) {
    const auto result = QuantizeWith(model, quark ? Quark(config) : config);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto* weight = result->model.FindInitializer("w_quantized");
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(std::isinf(result->model.Data(*weight)->At(0)), quark);
  }
}

TEST(ImprovementsTest, AlignmentLeavesBFloat16NeighboursAlone) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x, float[1,2] z) => (float[1,4] y)
    <float[2,2] w = {1, 0.5, 0.25, 1}, float[2,2] v = {1, 2, 3, 4}> {
      [mm] a = MatMul(x, w)
      [other] b = MatMul(z, v)
      [join] c = Concat <axis = 1> (a, b)
      [last] y = Add(c, c)
    })");
  QuantizeConfig config = Vint8Npu();
  config.options.dedicated_qdq_pair = false;
  config.options.align_concat = true;
  config.tensor_overrides["c"] = {onnx::TensorProto::BFLOAT16, true};
  for (const bool quark : {false, true}) {
    const auto result = QuantizeWith(model, quark ? Quark(config) : config);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto* zero_point = result->model.FindInitializer("a_zero_point");
    ASSERT_NE(zero_point, nullptr);
    EXPECT_EQ(zero_point->data_type() == onnx::TensorProto::INT8, !quark);
  }
}

constexpr const char* kJoin = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (float[1,4] x) => (float[1,8] y)
  <float pixels = {5000}, float half = {0.5}> {
    [boxes] a = Mul(x, pixels)
    [scores] b = Mul(x, half)
    [join] y = Concat <axis = 1> (a, b)
  })";

TEST(ImprovementsTest, JoinOfPixelsAndScoresStaysFloat) {
  for (const char* scheme : {"vint8", "W8-A8", "xint8"}) {
    const auto result = QuantizeWith(ParseModel(kJoin), *ConfigOfScheme(scheme));
    ASSERT_TRUE(result.ok()) << result.status();
    const auto reference = RunModel(ParseModel(kJoin));
    const auto actual = RunModel(result->model);
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < reference->at("y").size(); ++i) {
      if (i % 8 < 4) continue;  // the scores
      const double r = reference->at("y")[i];
      signal += r * r;
      noise += (r - actual->at("y")[i]) * (r - actual->at("y")[i]);
    }
    EXPECT_GT(10 * std::log10(signal / noise), 25) << scheme;
    EXPECT_THAT(result->report["warnings"].dump(), testing::HasSubstr("join"));
  }
}

TEST(ImprovementsTest, BetaOfGemmKeepsItsMeaning) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,2] x) => (float[4,2] y)
    <float[2,2] w = {1, 0.5, 0.25, 1}, float[2] b = {8, -4}> {
      y = Gemm <beta = 0.5> (x, w, b)
    })");
  const auto reference = RunModel(model);
  for (const char* scheme : {"vint8", "W8-A8", "W8-A8_dynamic"}) {
    const auto result = QuantizeWith(model, *ConfigOfScheme(scheme));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(SignalToNoise(*reference, *RunModel(result->model)), 25) << scheme;
  }
}

TEST(ImprovementsTest, BiasThatWouldOverflowWidensItsWeight) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,2] x) => (float[4,2] y)
    <float[2,2] w = {1e-9, 0.5, 1e-9, 1}, float[2] b = {3, 1}> {
      y = Gemm(x, w, b)
    })");
  const auto result = QuantizeWith(model, *ConfigOfScheme("W8-A8"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(SignalToNoise(*RunModel(model), *RunModel(result->model)), 30);
}

// A stream between float nodes stays float for them, and int8 for the others; what an int8 node
// makes is int8 for everybody.
TEST(ImprovementsTest, FloatNodesReadWhatFloatNodesMakeWithoutAPair) {
  const graph::Model model = ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,4] y, float[1,4] z)
    <float two = {2}, float three = {3}> {
      [int8_first] a = Mul(x, two)
      [float_first] s = Add(a, x)
      [int8_reader] b = Mul(s, three)
      [float_second] y = Add(s, b)
      [int8_last] z = Mul(a, three)
    })");
  QuantizeConfig config = Vint8Npu();
  const std::vector<std::string> promoted = {"float_first", "float_second"};
  PromoteNodes(promoted, onnx::TensorProto::BFLOAT16, MixedForm::kFloat, &config);
  const auto result = QuantizeWith(model, config);
  ASSERT_TRUE(result.ok()) << result.status();
  const onnx::NodeProto* first = FindNode(result->model, "float_first");
  const onnx::NodeProto* second = FindNode(result->model, "float_second");
  EXPECT_EQ(ProducerOf(result->model, second->input(0)), first);
  EXPECT_EQ(ProducerOf(result->model, second->input(1))->op_type(), "DequantizeLinear");
  EXPECT_EQ(ProducerOf(result->model, first->input(0))->op_type(), "DequantizeLinear");
  EXPECT_EQ(ProducerOf(result->model, FindNode(result->model, "int8_reader")->input(0))->op_type(),
            "DequantizeLinear");
}

}  // namespace
}  // namespace gq::quantize
