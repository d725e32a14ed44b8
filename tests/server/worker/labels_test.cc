// True top-1 and top-5 against a file of labels, and the goals that rest on them.
#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int kClasses = 6;
constexpr int kSamples = 10;

// The net hands its input on, so that the classes are those of the samples: the first choice of
// sample i is class i, the second i + 1, ..., the last i + 5 (modulo 6).
class LabelsTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    std::string identity;
    for (int i = 0; i < kClasses * kClasses; ++i) {
      identity += (i == 0 ? "" : ", ") + std::string(i % (kClasses + 1) == 0 ? "1" : "0");
    }
    WriteModel("m.onnx", "g (float[1,6] x) => (float[1,6] y) <float[6,6] w = {" + identity +
                             "}> { y = MatMul(x, w) }");
    std::vector<float> values(kSamples * kClasses);
    for (int i = 0; i < kSamples; ++i) {
      for (int rank = 0; rank < kClasses; ++rank) {
        values[i * kClasses + (i + rank) % kClasses] = 1 - 0.25f * static_cast<float>(rank);
      }
    }
    ASSERT_TRUE(
        runtime::WriteNpy(Path("x.npy"), runtime::Tensor::Of<float>({kSamples, kClasses}, values))
            .ok());
    // Eight times the first choice, once the second, once the last.
    std::vector<int64_t> labels;
    for (int i = 0; i < kSamples; ++i) labels.push_back((i + (i < 8 ? 0 : i == 8 ? 1 : 5)) % 6);
    WriteLabels("labels.npy", labels);
  }

  void WriteLabels(const std::string& name, const std::vector<int64_t>& labels) const {
    ASSERT_TRUE(runtime::WriteNpy(Path(name), runtime::Tensor::Of<int64_t>(
                                                  {static_cast<int64_t>(labels.size())}, labels))
                    .ok());
  }

  Outcome Quantize(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "quantize", "--model",  "m.onnx", "--calibration-data", "x.npy", "--evaluation-data",
        "x.npy",    "--output", "q.onnx", "--report",           "r.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(LabelsTest, TopOneAndTopFiveAreThoseOfTheLabels) {
  const Outcome outcome =
      Quantize({"--labels", "labels.npy", "--target-accuracy", "top1>=fp32-1%", "--target-accuracy",
                "top5>=fp32-0%", "--target-accuracy", "top1>79.9%"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json evaluate = json::parse(Text("r.json"))["evaluate"];
  EXPECT_EQ(evaluate["task"], "classification");
  EXPECT_DOUBLE_EQ(evaluate["top1"], 80);
  EXPECT_DOUBLE_EQ(evaluate["fp32_top1"], 80);
  EXPECT_DOUBLE_EQ(evaluate["top5"], 90);
  EXPECT_DOUBLE_EQ(evaluate["fp32_top5"], 90);
  EXPECT_DOUBLE_EQ(evaluate["top1_agreement"], 100);
  EXPECT_EQ(evaluate["outputs"][0]["labelled"], kSamples);
  for (const json& goal : evaluate["verdict"]["goals"]) EXPECT_EQ(goal["met"], true) << goal;
  EXPECT_THAT(outcome.out, HasSubstr("top-1 80.00 % (FP32 80.00 %)"));
}

TEST_F(LabelsTest, AGoalAboveTheLabelledAccuracyIsMissed) {
  const Outcome outcome = Quantize({"--labels", "labels.npy", "--target-accuracy", "top1>=90%"});
  EXPECT_EQ(outcome.code, 10) << outcome.out << outcome.err;
  const json goal = json::parse(Text("r.json"))["evaluate"]["verdict"]["goals"][0];
  EXPECT_EQ(goal["met"], false);
  EXPECT_DOUBLE_EQ(goal["value"], 80);
}

// Without labels top1 is agreement with FP32, which is complete here.
TEST_F(LabelsTest, WithoutLabelsTheReferenceIsTheMeasure) {
  const Outcome outcome = Quantize({"--target-accuracy", "top1>=99%"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_FALSE(json::parse(Text("r.json"))["evaluate"].contains("top1"));
}

TEST_F(LabelsTest, SamplesWithoutALabelAreLeftOut) {
  WriteLabels("some.npy", {0, 1, -1, 3, -1, 5, -1, 0, 1, 3});
  const Outcome outcome = Quantize({"--labels", "some.npy"});
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 10) << outcome.out << outcome.err;
  const json evaluate = json::parse(Text("r.json"))["evaluate"];
  EXPECT_EQ(evaluate["outputs"][0]["labelled"], 7);
  // Right but for samples 7 (class 1) and 8 (class 2), whose labels are the last choices.
  EXPECT_NEAR(evaluate["top1"], 100.0 * 5 / 7, 1e-9);
}

TEST_F(LabelsTest, LabelsThatDoNotFitAreAnError) {
  const auto arguments = [](const std::string& labels) -> std::vector<std::string> {
    return {"quantize", "--model",  "m.onnx", "--calibration-data", "x.npy", "--evaluation-data",
            "x.npy",    "--labels", labels,   "--output",           "q.onnx"};
  };
  WriteLabels("few.npy", {0, 1, 2});
  ExpectError(arguments("few.npy"), 2, "DATA_SHAPE_MISMATCH", {"3 labels", "10 evaluation"});
  WriteLabels("high.npy", {0, 1, 2, 3, 4, 5, 0, 1, 2, 6});
  ExpectError(arguments("high.npy"), 2, "DATA_INVALID", {"label 9 is 6", "0 to 5"});
  ExpectError(arguments("missing.npy"), 2, "FILE_NOT_FOUND", {"missing.npy"});
}

// The same figures from two files.
TEST_F(LabelsTest, TheVerbEvaluateTakesThem) {
  ASSERT_TRUE(Quantize({"--labels", "labels.npy"}).code >= 0);
  const Outcome outcome =
      Run({"evaluate", "--model", "q.onnx", "--reference", "m.onnx", "--evaluation-data", "x.npy",
           "--labels", "labels.npy", "--target-accuracy", "top1>=fp32-1%", "--report", "e.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json evaluate = json::parse(Text("e.json"))["evaluate"];
  EXPECT_DOUBLE_EQ(evaluate["top1"], 80);
  EXPECT_DOUBLE_EQ(evaluate["fp32_top5"], 90);
}

}  // namespace
}  // namespace gq::worker
