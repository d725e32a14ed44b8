// What is saved of a configuration: it says everything, gives the same bytes and resolves to
// itself.
#include "common/quantize/resolved_config.h"

#include "common/quantize/mixed_precision.h"
#include "common/quantize/presets.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/scheme.h"
#include "gmock/gmock.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

graph::Model Network() {
  return ParseModel(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2,8,8] x) => (float[1,2,8,8] y)
    <float[2,2,1,1] w = {0.5, -0.25, 0.125, 0.75}, float[2] b = {0.1, -0.1},
     float[2,2,1,1] v = {1.0, 0.5, -0.5, 0.25}, float[2] c = {0.0, 0.2}> {
      [head_conv] a = Conv(x, w, b)
      [head_relu] d = Relu(a)
      [body_conv] e = Conv(d, v, c)
      [body_sigmoid] f = Sigmoid(e)
      [body_mul] h = Mul(e, f)
      [tail_conv] i = Conv(h, v, b)
      [tail_add] y = Add(i, d)
    })");
}

std::vector<QuantizeConfig> Configurations() {
  std::vector<QuantizeConfig> configs;
  for (const auto& scheme : AllSchemes()) configs.push_back(*ConfigOfScheme(scheme.name));
  for (const auto preset : AllPresets()) configs.push_back(*ConfigOfPreset(preset));
  for (const auto make : {QuarkVint8, QuarkXint8, QuarkBf16, QuarkA8w8, Vint8Npu}) {
    configs.push_back(make());
    configs.back().compatibility = Compatibility::kQuark;
  }
  for (const auto method :
       {CalibrationMethod::kPercentile, CalibrationMethod::kEntropy,
        CalibrationMethod::kLayerwisePercentile, CalibrationMethod::kDistribution}) {
    configs.push_back(*ConfigOfScheme("W8-A8"));
    configs.back().activation.method = method;
  }
  const std::vector<std::string> nodes = {"body_conv", "body_mul"};
  for (const MixedForm form : {MixedForm::kFloat, MixedForm::kCast}) {
    configs.push_back(*ConfigOfScheme("vint8+bf16", form));
    PromoteNodes(nodes, onnx::TensorProto::BFLOAT16, form, &configs.back());
  }
  for (const ElementType precision : {onnx::TensorProto::BFLOAT16, onnx::TensorProto::FLOAT}) {
    configs.push_back(*ConfigOfScheme("vint8"));
    configs.back().promotion = Promotion{nodes, precision, MixedForm::kCast};
    configs.back().input_shapes = {{"x", {1, 2, 8, 8}}};
  }
  configs.push_back(*ConfigOfScheme("vint8"));
  configs.back().exclude = {"^tail_.*"};
  configs.back().exclude_subgraphs = {{{"body_conv"}, {"body_mul"}}};
  return configs;
}

TEST(ResolvedConfigTest, GivesTheSameBytesAndResolvesToItself) {
  const graph::Model model = Network();
  for (const QuantizeConfig& config : Configurations()) {
    const auto resolved = ResolvedConfig(config, model, nullptr);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    const std::string text = WriteQuarkJson(*resolved);
    const auto read = ParseQuarkJson(text, "saved");
    ASSERT_TRUE(read.ok()) << read.status() << text;
    EXPECT_TRUE(read->config == *resolved) << text;
    const auto again = ResolvedConfig(read->config, model, nullptr);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(WriteQuarkJson(*again), text);

    const auto first = QuantizeWith(model, config);
    const auto second = QuantizeWith(model, read->config);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status() << text;
    EXPECT_EQ(first->model.proto().SerializeAsString(), second->model.proto().SerializeAsString())
        << text;
    EXPECT_EQ(first->model.Digest(), second->model.Digest()) << text;
  }
}

TEST(ResolvedConfigTest, PatternsAndRegionsAreNames) {
  const auto resolved = ResolvedConfig(Configurations().back(), Network(), nullptr);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(resolved->exclude,
              ElementsAre("body_conv", "body_mul", "body_sigmoid", "tail_add", "tail_conv"));
  EXPECT_TRUE(resolved->exclude_subgraphs.empty());

  QuantizeConfig cast = *ConfigOfScheme("vint8+bf16", MixedForm::kCast);
  PromoteNodes(std::vector<std::string>{"^head_.*"}, onnx::TensorProto::BFLOAT16, MixedForm::kCast,
               &cast);
  const auto mixed = ResolvedConfig(cast, Network(), nullptr);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_THAT(mixed->overrides[0].targets, ElementsAre("head_conv", "head_relu"));
}

TEST(ResolvedConfigTest, SaysWhatItsPathDoes) {
  const std::string vint8 =
      WriteQuarkJson(*ResolvedConfig(*ConfigOfScheme("vint8"), Network(), nullptr));
  for (const char* option :
       {"\"EnableNPUCnn\": true", "\"AdjustShiftCut\": true", "\"MaxLoopNum\": 5",
        "\"ConvertSigmoidToHardSigmoid\": false", "\"Int32Bias\": false", "\"NumBins\": 2048",
        "\"OptimizeModel\": true", "\"AlignConcat\": true"}) {
    EXPECT_THAT(vint8, HasSubstr(option));
  }
  QuantizeConfig plain = *ConfigOfScheme("W8-A8");
  plain.activation.method = CalibrationMethod::kPercentile;
  const std::string text = WriteQuarkJson(*ResolvedConfig(plain, Network(), nullptr));
  EXPECT_THAT(text, HasSubstr("\"Percentile\": 99.999"));
  EXPECT_THAT(text, HasSubstr("\"Int32Bias\": true"));
  EXPECT_THAT(text, Not(HasSubstr("AdjustShiftCut")));
}

}  // namespace
}  // namespace gq::quantize
