#include "common/job/performance_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"

namespace gq::job {
namespace {

using base::Reason;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

TEST(PerformanceTargetTest, ReadsMetricComparisonNumberAndUnit) {
  const auto read = [](const char* text) { return ParsePerformanceTarget(text).value(); };
  EXPECT_EQ(read("latency_p50<5ms").value, 5);
  EXPECT_EQ(read("latency_p99 <= 800us").value, 0.8);
  EXPECT_EQ(read("latency_p99 <= 800us").op, "<=");
  EXPECT_EQ(read("latency_p50<0.5s").value, 500);
  EXPECT_EQ(read("throughput>=100/s").value, 100);
  EXPECT_EQ(read("offload>=98%").value, 98);
  EXPECT_EQ(read("model_size<4MB").value, 4e6);
  EXPECT_EQ(read("model_size<4MiB").value, 4194304);
  EXPECT_EQ(read("partitions<=1").metric, PerformanceMetric::kPartitions);
}

TEST(PerformanceTargetTest, WhatCannotBeReadIsSaid) {
  for (const char* text : {"", "latency", "latency_p51<5", "latency_p50=5", "latency_p50<x",
                           "latency_p50<5MB", "offload>=-1", "bf16_share<30dB", "latency_p50<"}) {
    const auto status = ParsePerformanceTarget(text).status();
    EXPECT_EQ(base::GetReason(status), Reason::kTargetInvalid) << text;
    EXPECT_THAT(base::GetHint(status), HasSubstr("latency_p50<5ms")) << text;
  }
}

TEST(PerformanceTargetTest, AGoalNeedsTheStepThatMeasuresIt) {
  gq::v1::JobSpec spec;
  spec.set_stage(gq::v1::STAGE_COMPILE);
  spec.add_target_performance("offload>=98%");
  EXPECT_TRUE(CheckPerformanceTargets(spec).ok());
  spec.add_target_performance("latency_p50<5ms");
  EXPECT_THAT(base::GetHint(CheckPerformanceTargets(spec)), HasSubstr("--stage exec"));
  spec.set_stage(gq::v1::STAGE_EXEC);
  EXPECT_TRUE(CheckPerformanceTargets(spec).ok());
  spec.set_stage(gq::v1::STAGE_QUANTIZE);
  EXPECT_EQ(base::GetReason(CheckPerformanceTargets(spec)), Reason::kTargetInvalid);
  EXPECT_THAT(std::string(CheckPerformanceTargets(spec).message()),
              HasSubstr("'offload>=98%' needs a compile"));
  // What a model is like can be told of any.
  spec.clear_target_performance();
  spec.add_target_performance("model_size<1MB");
  spec.add_target_performance("bf16_share<=30%");
  EXPECT_TRUE(CheckPerformanceTargets(spec).ok());
  spec.add_step("graph_optimize");
  EXPECT_THAT(std::string(CheckPerformanceTargets(spec).message()),
              HasSubstr("'model_size<1MB' needs a quantized model"));
}

TEST(PerformanceTargetTest, JudgesByTheReport) {
  gq::v1::JobSpec spec;
  for (const char* text : {"latency_p50<5ms", "latency_p99<5ms", "offload>=98%", "partitions<=2",
                           "model_size<1KB", "bf16_share<=50%"}) {
    spec.add_target_performance(text);
  }
  const std::vector<Json> parts = {
      Json::parse(R"({"sizes":{"quantized_bytes":900},"layers":[{"precision":"int8","macs":5},
                      {"precision":"bf16","macs":5},{"precision":"bf16","macs":0}]})"),
      Json::parse(R"({"simulated":true,"backend":"sim","partitions":{"npu":1,"cpu":2},
                      "offload":{"gops_percent":99.0}})"),
      Json::parse(R"({"simulated":true,"latency_ms":{"p50":4.0},"throughput_per_second":250})")};
  const PerformanceFigures figures = FiguresOf(parts);
  const auto run = JudgePerformance(spec, MeasuredBy::kBoardRun, figures);
  ASSERT_EQ(run.size(), 2U);
  EXPECT_TRUE(run[0].met);
  EXPECT_TRUE(run[0].simulated);
  EXPECT_EQ(DescribeResult(run[0]), "Goal latency_p50<5ms met (simulated, not on hardware): 4");
  EXPECT_FALSE(run[1].met);  // a single figure has no p99
  EXPECT_EQ(DescribeResult(run[1]),
            "Goal latency_p99<5ms not judged: the board gives a single figure, which has no "
            "percentiles");
  EXPECT_FALSE(run[1].missed());
  const auto compiled = JudgePerformance(spec, MeasuredBy::kCompile, figures);
  ASSERT_EQ(compiled.size(), 2U);
  EXPECT_TRUE(compiled[0].met);
  EXPECT_FALSE(compiled[1].met);
  const auto quantized = JudgePerformance(spec, MeasuredBy::kQuantize, figures);
  ASSERT_EQ(quantized.size(), 2U);
  EXPECT_TRUE(quantized[0].met);
  EXPECT_EQ(quantized[1].value, 50);
  EXPECT_FALSE(quantized[0].simulated);
}

TEST(PerformanceTargetTest, TheLatencyOfACpuIsNotTheBoards) {
  gq::v1::JobSpec spec;
  spec.add_target_performance("latency_p50<5ms");
  const auto results = JudgePerformance(
      spec, MeasuredBy::kBoardRun,
      FiguresOf({Json::parse(R"({"latency_ms":{"p50":1.0},"fell_back":"no compiled model"})")}));
  EXPECT_FALSE(results[0].met);
  EXPECT_FALSE(results[0].value);
  EXPECT_TRUE(results[0].missed());
}

TEST(PerformanceTargetTest, WhatNobodyTellsIsNotJudged) {
  gq::v1::JobSpec spec;
  for (const char* text : {"latency_p50<5ms", "latency_p99<5ms", "throughput>=1", "offload>=98%"}) {
    spec.add_target_performance(text);
  }
  base::NullReporter quiet;
  Json run =
      Json::parse(R"({"backend":"vitisai","latency_ms":{"mean":4.0},"throughput_per_second":250})");
  EXPECT_TRUE(JudgeTargets(spec, {}, {MeasuredBy::kBoardRun}, quiet, run));
  ASSERT_EQ(run["performance_targets"].size(), 3U);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run["performance_targets"][i]["judged"], false);
    EXPECT_EQ(run["performance_targets"][i]["reason"],
              "the board's tool tells a mean and no percentiles");
  }
  EXPECT_EQ(run["performance_targets"][2]["met"], true);

  Json plain = Json::parse(R"({"backend":"onnxruntime"})");
  EXPECT_TRUE(JudgeTargets(spec, {}, {MeasuredBy::kCompile}, quiet, plain));
  EXPECT_EQ(plain["performance_targets"][0]["reason"], "backend onnxruntime does not tell it");
  Json skipped = Json::parse(R"({"backend":"sim","skipped":"no compiler"})");
  EXPECT_TRUE(JudgeTargets(spec, {}, {MeasuredBy::kCompile}, quiet, skipped));
  EXPECT_EQ(skipped["performance_targets"][0]["reason"], "Compile was left out: no compiler");
  Json low = Json::parse(R"({"backend":"sim","offload":{"gops_percent":50}})");
  EXPECT_FALSE(JudgeTargets(spec, {}, {MeasuredBy::kCompile}, quiet, low));
}

// What a search, or the board after it, put in the model's place counts.
TEST(PerformanceTargetTest, TheModelThatWasChosenIsJudged) {
  gq::v1::JobSpec spec;
  spec.add_target_performance("model_size<1KB");
  base::NullReporter quiet;
  const Json before = Json::parse(R"({"sizes":{"quantized_bytes":5000}})");
  Json search = Json::parse(R"({"result":{"graph_quantize":{"sizes":{"quantized_bytes":900}}}})");
  EXPECT_TRUE(JudgeTargets(spec, {before}, {MeasuredBy::kQuantize}, quiet, search));
  EXPECT_EQ(search["performance_targets"][0]["value"], 900);
}

}  // namespace
}  // namespace gq::job
