#include "server/worker/steps/strategy.h"

#include <algorithm>
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

}  // namespace
}  // namespace gq::worker
