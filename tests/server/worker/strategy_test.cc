#include "server/worker/steps/strategy.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/defs/parser.h"

namespace gq::worker {
namespace {

using base::Reason;
using gq::v1::JobSpec;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

graph::Model Parse(const std::string& body) {
  onnx::ModelProto proto;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : 17]>\n" + body;
  const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  // Names in the order of the nodes, since the text form has none.
  int number = 0;
  for (auto& node : *proto.mutable_graph()->mutable_node()) {
    node.set_name("n" + std::to_string(number++));
  }
  return *graph::Model::FromProto(std::move(proto));
}

graph::Model Plain() { return Parse("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }"); }

absl::StatusOr<Strategy> Choose(const JobSpec& spec, const graph::Model& model = Plain(),
                                graph::TaskType task = graph::TaskType::kRegression) {
  return ChooseStrategy(spec, model, task);
}

TEST(StrategyTest, WithoutARequestItIsVint8) {
  const auto strategy = Choose({});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ(strategy->config.scheme, "vint8");
  EXPECT_THAT(strategy->sentences, Contains(HasSubstr("vint8 (default)")));
}

TEST(StrategyTest, TheDeviceChoosesTheScheme) {
  EXPECT_EQ(DefaultScheme("ve2-xc2ve3858"), "vint8");
  EXPECT_EQ(DefaultScheme(""), "vint8");
  EXPECT_EQ(DefaultScheme("ethos-u55"), "W8-A8");
  EXPECT_EQ(DefaultScheme("xnnpack-cpu"), "W8-A8");
}

TEST(StrategyTest, CompatibilityIsTakenOver) {
  JobSpec spec;
  spec.set_compat("quark");
  const auto strategy = Choose(spec);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ(strategy->config.compatibility, quantize::Compatibility::kQuark);
}

TEST(StrategyTest, AConfigurationMayNameRecoveryPasses) {
  JobSpec spec;
  spec.set_config_json(R"({"recovery": ["rounding", "folding"]})");
  auto strategy = Choose(spec);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_THAT(strategy->recover.passes, testing::ElementsAre("rounding", "folding"));
  EXPECT_EQ(strategy->config.recovery, strategy->recover.passes);
  spec.set_recover("none");  // the flag wins
  strategy = Choose(spec);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_TRUE(strategy->recover.passes.empty());
  spec.clear_recover();
  spec.set_config_json(R"({"recovery": ["magic"]})");
  const absl::Status status = Choose(spec).status();
  EXPECT_EQ(base::GetReason(status), Reason::kConfigInvalid);
  EXPECT_THAT(base::GetHint(status), HasSubstr("rounding"));
}

TEST(StrategyTest, AMethodThatTheSchemeCannotUseIsRefused) {
  JobSpec spec;
  spec.set_scheme("vint8");
  for (const char* method : {"entropy", "percentile:99.9", "moving-average"}) {
    spec.set_calibration_method(method);
    EXPECT_EQ(base::GetReason(Choose(spec).status()), Reason::kInvalidFlag) << method;
  }
  for (const char* method : {"minmax", "nonoverflow", "minmse"}) {
    spec.set_calibration_method(method);
    EXPECT_TRUE(Choose(spec).ok()) << method;
  }
}

TEST(StrategyTest, ExcludedNodesAreListedOnce) {
  JobSpec spec;
  spec.add_exclude("a");
  spec.add_exclude("a");
  spec.add_exclude("b");
  const auto strategy = Choose(spec);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_THAT(strategy->config.exclude, ElementsAre("a", "b"));
}

TEST(StrategyTest, PostProcessingOfADetectorStaysFloat) {
  const graph::Model model = Parse(
      "g (float[1,2] x) => (float[1,3] v, int64[1,3] i) "
      "<float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] k = {3}> "
      "{ s = MatMul(x, w) t = Sigmoid(s) v, i = TopK(t, k) }");
  const auto derived = Choose({}, model, graph::TaskType::kDetection);
  ASSERT_TRUE(derived.ok()) << derived.status();
  EXPECT_THAT(derived->config.exclude, Contains("n2"));
  EXPECT_THAT(derived->config.exclude, Not(Contains("n0")));
  // What the user configures is taken as it is.
  JobSpec spec;
  spec.set_config_name("full_vint8");
  EXPECT_THAT(Choose(spec, model, graph::TaskType::kDetection)->config.exclude, ElementsAre());
}

TEST(StrategyTest, ShapesAreReadByInput) {
  JobSpec spec;
  spec.add_input_shape("x=1x3x224x224");
  spec.add_input_shape("a=b=7");  // a name may hold the sign
  const auto shapes = PinnedShapes(spec);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_THAT(shapes->at("x"), ElementsAre(1, 3, 224, 224));
  EXPECT_THAT(shapes->at("a=b"), ElementsAre(7));
  for (const char* bad : {"x", "x=", "=1", "x=1x", "x=0", "x=-1", "x=1x2.5", "x=ax2"}) {
    JobSpec wrong;
    wrong.add_input_shape(bad);
    EXPECT_EQ(base::GetReason(PinnedShapes(wrong).status()), Reason::kInvalidFlag) << bad;
  }
}

// Five layers in a row; n0, n2, n4, n6 and n8 are MatMul.
graph::Model Chain() {
  return Parse(
      "g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}> "
      "{ a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) d = Relu(c) e = MatMul(d, w) f = Relu(e) "
      "h = MatMul(f, w) i = Relu(h) y = MatMul(i, w) }");
}

TEST(MixedLayersTest, NamedLayersStayInBfloat16) {
  JobSpec spec;
  spec.set_scheme("vint8+bf16");
  spec.add_fp_nodes("n2");
  spec.add_fp_op_types("Relu");
  const auto strategy = Choose(spec, Chain());
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ(strategy->config.scheme, "vint8+bf16");
  EXPECT_EQ(strategy->config.float_precision, "bf16");
  EXPECT_THAT(strategy->config.exclude, ElementsAre("n2", "n1", "n3", "n5", "n7"));
  EXPECT_THAT(strategy->sentences, Contains(HasSubstr("in BF16 on request: n2, n1")));
}

TEST(MixedLayersTest, TheCastFormOverridesLayers) {
  JobSpec spec;
  spec.add_fp_nodes("n2");
  spec.set_fp_precision("fp16");
  spec.set_mixed_form("cast");
  const auto strategy = Choose(spec, Chain());
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ(strategy->config.scheme, "vint8+fp16");
  EXPECT_EQ(strategy->config.float_precision, "");
  EXPECT_THAT(strategy->config.exclude, ElementsAre());
  ASSERT_EQ(strategy->config.overrides.size(), 1u);
  EXPECT_THAT(strategy->config.overrides[0].targets, ElementsAre("n2"));
  EXPECT_EQ(strategy->config.overrides[0].layer.weight->type, onnx::TensorProto::FLOAT16);
  EXPECT_EQ(strategy->config.options.enable_dual_quant_node_pairs, true);
}

TEST(MixedLayersTest, HeadAndTailAreCountedOnTheOptimizedModel) {
  const graph::Model model = Chain();
  JobSpec spec;
  spec.set_config_name("vint8_bf16_head_tail");
  const auto early = Choose(spec, model);
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_THAT(early->config.exclude, ElementsAre());
  const auto both = ChooseStrategy(spec, model, graph::TaskType::kRegression, &model);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->config.exclude, ElementsAre("n0", "n8"));
  spec.set_head(2);
  const auto longer = ChooseStrategy(spec, model, graph::TaskType::kRegression, &model);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_THAT(longer->config.exclude, ElementsAre("n0", "n1", "n2", "n8"));
  spec.set_tail(3);
  const auto refused = ChooseStrategy(spec, model, graph::TaskType::kRegression, &model);
  EXPECT_EQ(base::GetReason(refused.status()), Reason::kConfigInvalid);
}

TEST(MixedLayersTest, ContradictionsAreRefused) {
  const auto reason = [](const std::function<void(JobSpec&)>& change) {
    JobSpec spec;
    change(spec);
    return base::GetReason(Choose(spec, Chain()).status());
  };
  EXPECT_EQ(reason([](JobSpec& spec) {
              spec.set_scheme("vint8+bf16");
              spec.set_fp_precision("fp16");
              spec.add_fp_nodes("n2");
            }),
            Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) {
              spec.set_scheme("W8-A8");
              spec.add_fp_nodes("n2");
            }),
            Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) {
              spec.set_scheme("bf16");
              spec.add_fp_op_types("MatMul");
            }),
            Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) { spec.set_head(2); }), Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) { spec.set_mixed_form("cast"); }), Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) { spec.set_fp_precision("bf16"); }), Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) { spec.add_fp_op_types("LSTM"); }), Reason::kPatternUnmatched);
  EXPECT_EQ(reason([](JobSpec& spec) {
              spec.set_device("xnnpack-cpu");
              spec.add_fp_nodes("n2");
            }),
            Reason::kInvalidFlag);
  EXPECT_EQ(reason([](JobSpec& spec) {
              spec.set_device("stx");
              spec.add_fp_nodes("n2");
              spec.set_fp_precision("fp16");
            }),
            Reason::kSchemeIllegal);
}

TEST(SchemesTest, EveryDeviceNamesWhatItTakes) {
  JobSpec spec;
  spec.set_device("ethos-u55");
  spec.set_scheme("W8-A8_dynamic");
  const auto strategy = Choose(spec);
  EXPECT_EQ(base::GetReason(strategy.status()), Reason::kSchemeIllegal);
  EXPECT_THAT(base::GetHint(strategy.status()), HasSubstr("W8-A8, W8-A16"));
}

TEST(SchemesTest, ACalibrationMethodWithoutRangesIsRefused) {
  for (const char* scheme : {"bf16", "fp16", "W8-A8_dynamic", "W4-A8_dynamic"}) {
    JobSpec spec;
    spec.set_scheme(scheme);
    ASSERT_TRUE(Choose(spec).ok()) << scheme;
    EXPECT_TRUE(Choose(spec)->recover.passes.empty()) << scheme;
    spec.set_calibration_method("minmax");
    EXPECT_EQ(base::GetReason(Choose(spec).status()), Reason::kInvalidFlag) << scheme;
  }
}

TEST(SchemesTest, RangesThatWereAskedForAreNotChosenAgain) {
  JobSpec spec;
  spec.set_scheme("W8-A8");
  EXPECT_THAT(Choose(spec)->recover.passes, Contains("ranges"));
  spec.set_calibration_method("percentile:99.99");
  EXPECT_THAT(Choose(spec)->recover.passes, Not(Contains("ranges")));
}

}  // namespace
}  // namespace gq::worker
