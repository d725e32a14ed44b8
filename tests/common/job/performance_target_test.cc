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
      Json::parse(R"({"simulated":true,"partitions":{"npu":1,"cpu":2},
                      "offload":{"gops_percent":99.0}})"),
      Json::parse(R"({"simulated":true,"latency_ms":{"p50":4.0},"throughput_per_second":250})")};
  const PerformanceFigures figures = FiguresOf(parts);
  const auto run = JudgePerformance(spec, MeasuredBy::kBoardRun, figures);
  ASSERT_EQ(run.size(), 2U);
  EXPECT_TRUE(run[0].met);
  EXPECT_TRUE(run[0].simulated);
  EXPECT_EQ(DescribeResult(run[0]), "Goal latency_p50<5ms met (simulated, not on hardware): 4");
  EXPECT_FALSE(run[1].met);  // a single figure has no p99
  EXPECT_EQ(DescribeResult(run[1]), "Goal latency_p99<5ms not met (simulated): not measured");
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
}

}  // namespace
}  // namespace gq::job
