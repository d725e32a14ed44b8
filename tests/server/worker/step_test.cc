// gq-worker step WORKDIR, as the session of a worker runs it.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gq/v1/agent_service.pb.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/step_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class StepTest : public StepProcessTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    WriteConvModel("m.onnx");
    WriteSamples("x.npy", 4);
    spec_.mutable_model()->mutable_file()->set_name("m.onnx");
    spec_.add_calibration_data()->set_name("x.npy");
    spec_.add_target_accuracy("psnr>10");
  }

  static std::vector<std::string> Paths(const gq::v1::StepResult& result) {
    std::vector<std::string> paths;
    for (const auto& artifact : result.artifacts()) paths.push_back(artifact.path());
    return paths;
  }
};

TEST_F(StepTest, TheStepsOfAJobHandOnTheirResults) {
  auto result = RunStep(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "w1");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.DebugString();
  EXPECT_THAT(Paths(result), ElementsAre("model_float.onnx"));
  EXPECT_EQ(json::parse(result.report_json())["analysis"]["state"], "float");

  result = RunStep(gq::v1::STEP_KIND_GRAPH_QUANTIZE, "w2");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.DebugString();
  EXPECT_THAT(Paths(result), UnorderedElementsAre("model_quantized.onnx", "quark_config.json"));
  EXPECT_EQ(json::parse(result.report_json())["scheme"], "vint8");

  result = RunStep(gq::v1::STEP_KIND_EVALUATE, "w3");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.DebugString();
  EXPECT_EQ(result.verdict(), gq::v1::VERDICT_GOAL_MET);
  EXPECT_EQ(json::parse(result.report_json())["outputs"][0]["name"], "y");
}

// The parent writes the banner and the first and last line of a step.
TEST_F(StepTest, TheLogIsStoredLinesWithoutBanner) {
  RunStep(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "w1");
  EXPECT_THAT(outcome_.out, HasSubstr("Z INFO Analyze "));
  EXPECT_THAT(outcome_.out, Not(HasSubstr(" Banner ")));
  EXPECT_THAT(outcome_.out, Not(HasSubstr(" Workflow ")));
  EXPECT_THAT(outcome_.out, Not(HasSubstr(folder_.string())));
}

TEST_F(StepTest, AnErrorNamesTheFileAsTheUserDoes) {
  WriteSamples("x.npy", 4, 0, {2, 4});
  const auto failed = RunStep(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "w1");
  EXPECT_EQ(failed.state(), gq::v1::ATTEMPT_STATE_FAILED);
  EXPECT_EQ(failed.failure().reason(), "DATA_SHAPE_MISMATCH");
  EXPECT_EQ(failed.failure().failure_class(), gq::v1::FAILURE_CLASS_USER);
  EXPECT_THAT(failed.failure().message(), testing::StartsWith("x.npy"));
  EXPECT_THAT(failed.failure().message(), Not(HasSubstr("calibration/0")));
  EXPECT_EQ(failed.artifacts_size(), 0);
}

TEST_F(StepTest, AStepOfABoardIsNotAWorkersBusiness) {
  const auto result = RunStep(gq::v1::STEP_KIND_BOARD_RUN, "w1");
  EXPECT_EQ(result.state(), gq::v1::ATTEMPT_STATE_FAILED);
  EXPECT_EQ(result.failure().reason(), "NOT_AVAILABLE");
}

TEST_F(StepTest, AWorkFolderWithoutALeaseFails) { EXPECT_NE(Run({"step", "nowhere"}).code, 0); }

}  // namespace
}  // namespace gq::worker
