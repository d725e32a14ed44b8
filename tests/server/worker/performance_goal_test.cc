// Goals on size and precision, which need no board, as gq-worker judges them.
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class PerformanceGoalTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    WriteConvModel("m.onnx");
    WriteSamples("calib.npy", 4);
  }
  Outcome Quantize(const std::string& goal, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"quantize",
                                          "m.onnx",
                                          "--calibration-data",
                                          "calib.npy",
                                          "--output",
                                          "q.onnx",
                                          "--report",
                                          "r.json",
                                          "--target-accuracy",
                                          "psnr>10",
                                          "--target-performance",
                                          goal};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(PerformanceGoalTest, IsJudgedByTheLastStep) {
  const Outcome met = Quantize("bf16_share<=10%");
  ASSERT_EQ(met.code, 0) << met.out << met.err;
  EXPECT_THAT(met.out, HasSubstr("[Goal] Goal bf16_share<=10% met: 0"));
  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["evaluate"]["performance_targets"][0]["met"], true);

  const Outcome missed = Quantize("model_size<10B");
  EXPECT_EQ(missed.code, 10) << missed.out << missed.err;
  EXPECT_THAT(missed.out, HasSubstr("Goal model_size<10B not met: "));
  const json other = json::parse(Text("r.json"));
  EXPECT_EQ(other["job"]["verdict"], "GOAL_NOT_MET");
  EXPECT_EQ(other["evaluate"]["performance_targets"][0]["value"],
            other["graph_quantize"]["sizes"]["quantized_bytes"]);
}

TEST_F(PerformanceGoalTest, WhatNeedsACompileOrABoardIsRefused) {
  const Outcome compile = Quantize("offload>=98%");
  EXPECT_EQ(compile.code, 2);
  EXPECT_THAT(compile.err, HasSubstr("'offload>=98%' needs a compile (TARGET_INVALID)"));
  const Outcome board = Quantize("latency_p50<5ms");
  EXPECT_EQ(board.code, 2);
  EXPECT_THAT(board.err, HasSubstr("needs a run on a board"));
  EXPECT_THAT(board.err, HasSubstr("gq run --stage exec"));
  EXPECT_EQ(Quantize("speed>3").code, 2);
}

}  // namespace
}  // namespace gq::worker
