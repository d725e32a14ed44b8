#include "board_agent/compile_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "board_agent/requantize.h"

namespace gq::agent {
namespace {

using compile::CompilerOptions;
using compile::CpuBecauseClass;
using compile::OffloadLevel;
using compile::PartitionReport;
using testing::ElementsAre;
using testing::IsEmpty;

PartitionReport Report(int below_threshold, std::vector<compile::CpuReason> reasons = {}) {
  PartitionReport report;
  report.subgraphs_below_threshold = below_threshold;
  report.cpu_reasons = std::move(reasons);
  return report;
}

TEST(CompileRoundsTest, ProposesWhatTheReasonsCallFor) {
  CompilerOptions options;
  options.f32_to_bf16 = false;
  EXPECT_THAT(ProposeChanges(Report(0), options, {}, {}, true), IsEmpty());
  EXPECT_THAT(ProposeChanges(Report(1), options, {}, {}, false),
              ElementsAre("threshold_gops_percent=0"));
  const PartitionReport many =
      Report(1, {{CpuBecauseClass::kKernelLibrary, {}, {}, "config.dtype float32", ""},
                 {CpuBecauseClass::kBackEnd, {}, {}, "[BE] x", ""},
                 {CpuBecauseClass::kTiling, {}, {}, "Unwrapping layer with", ""}});
  EXPECT_THAT(ProposeChanges(many, options, {}, {}, true),
              ElementsAre("threshold_gops_percent=0", "enable_f32_to_bf16_conversion=true",
                          "optimize_level=3"));
}

TEST(CompileRoundsTest, LeavesTheUsersChoicesAndTheNumericsAlone) {
  CompilerOptions options;
  options.f32_to_bf16 = false;
  const PartitionReport report =
      Report(1, {{CpuBecauseClass::kKernelLibrary, {}, {}, "config.dtype float32", ""}});
  EXPECT_THAT(ProposeChanges(report, options, {"threshold_gops_percent"}, {}, false), IsEmpty());
  EXPECT_THAT(ProposeChanges(report, options, {}, {"threshold_gops_percent=0"}, true),
              ElementsAre("enable_f32_to_bf16_conversion=true"));
}

TEST(RequantizeTest, LayersOnTheCpuLeaveTheExcludeList) {
  std::string config = R"({"exclude":{"node_names":["conv1","relu","^head.*"],"subgraphs":[]},)"
                       R"("extra_options":{"NodesToExclude":["conv1","relu","^head.*"]}})";
  EXPECT_THAT(IncludeLayers({"/net/conv1_output"}, config), ElementsAre("conv1"));
  const auto json = nlohmann::json::parse(config);
  EXPECT_THAT(json["exclude"]["node_names"].dump(), "[\"relu\",\"^head.*\"]");
  EXPECT_EQ(json["extra_options"]["NodesToExclude"], json["exclude"]["node_names"]);
  const std::string before = config;
  EXPECT_THAT(IncludeLayers({"other"}, config), IsEmpty());
  EXPECT_EQ(config, before);
  std::string damaged = "{";
  EXPECT_THAT(IncludeLayers({"relu"}, damaged), IsEmpty());
}

TEST(CompileRoundsTest, TheEdgesChangeOnlyWithConsent) {
  const CompilerOptions options;
  const PartitionReport report =
      Report(0, {{CpuBecauseClass::kFrontEnd, {}, {}, "standalone at the edge of the graph", ""}});
  EXPECT_THAT(ProposeChanges(report, options, {}, {}, false), IsEmpty());
  EXPECT_THAT(ProposeChanges(report, options, {}, {}, true),
              ElementsAre("fe_args+=edge-quantization-in-rt=1"));
  EXPECT_THAT(ProposeChanges(report, options, {"fe_args"}, {}, true), IsEmpty());
}

TEST(CompileRoundsTest, ComparesByTheOrderOfTheGoal) {
  const auto make = [](OffloadLevel level, double percent, int npu) {
    PartitionReport report;
    report.level = level;
    report.gops_percent = percent;
    report.npu_partitions = npu;
    return report;
  };
  EXPECT_TRUE(
      IsBetterOffload(make(OffloadLevel::kFew, 99.9, 2), make(OffloadLevel::kMissed, 90, 1)));
  EXPECT_FALSE(
      IsBetterOffload(make(OffloadLevel::kFew, 99.99, 2), make(OffloadLevel::kNearlyFull, 99, 1)));
  EXPECT_TRUE(
      IsBetterOffload(make(OffloadLevel::kMissed, 91, 3), make(OffloadLevel::kMissed, 90, 1)));
  EXPECT_TRUE(
      IsBetterOffload(make(OffloadLevel::kMissed, 90, 2), make(OffloadLevel::kMissed, 90, 3)));
  EXPECT_FALSE(
      IsBetterOffload(make(OffloadLevel::kMissed, 90, 3), make(OffloadLevel::kMissed, 90, 3)));
}

}  // namespace
}  // namespace gq::agent
