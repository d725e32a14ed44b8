#include "server/scheduler/job_plan.h"

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

gq::v1::FileRef File(const std::string& name, char digit = 'a') {
  gq::v1::FileRef file;
  file.set_name(name);
  file.mutable_digest()->set_sha256(std::string(64, digit));
  file.mutable_digest()->set_size_bytes(1);
  return file;
}

gq::v1::JobSpec Spec(gq::v1::JobKind kind = gq::v1::JOB_KIND_UNSPECIFIED) {
  gq::v1::JobSpec spec;
  spec.set_kind(kind);
  *spec.mutable_model()->mutable_file() = File("m.onnx");
  return spec;
}

std::vector<std::string> Titles(gq::v1::JobSpec spec) {
  EXPECT_TRUE(CompleteSpec(&spec).ok());
  std::vector<std::string> titles;
  for (const StepPlan& step : PlanSteps(spec)) titles.push_back(step.title);
  return titles;
}

TEST(JobPlan, StepsOfEachKind) {
  EXPECT_THAT(Titles(Spec()),
              ElementsAre("Graph Optimize", "Graph Quantize", "Evaluate", "Compile"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_REQUANTIZE)),
              ElementsAre("Dequantize", "Graph Optimize", "Graph Quantize", "Evaluate", "Compile"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_DRY_RUN)), ElementsAre("Graph Optimize", "Dry Run"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_ANALYZE)), ElementsAre("Analyze"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_DEQUANTIZE)), ElementsAre("Dequantize"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_EVALUATE)), ElementsAre("Evaluate"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_COMPILE)), ElementsAre("Compile"));
  EXPECT_THAT(Titles(Spec(gq::v1::JOB_KIND_BOARD_RUN)), ElementsAre("Board Run"));
}

TEST(JobPlan, StageCutsAndExploreAdds) {
  gq::v1::JobSpec spec = Spec();
  spec.set_stage(gq::v1::STAGE_QUANTIZE);
  EXPECT_THAT(Titles(spec), ElementsAre("Graph Optimize", "Graph Quantize", "Evaluate"));
  spec.set_explore(true);
  spec.set_stage(gq::v1::STAGE_EXEC);
  EXPECT_THAT(Titles(spec), ElementsAre("Graph Optimize", "Graph Quantize", "Evaluate", "Explore",
                                        "Compile", "Board Run"));
}

TEST(JobPlan, NeedsOfTheSteps) {
  gq::v1::JobSpec spec = Spec();
  spec.set_stage(gq::v1::STAGE_EXEC);
  spec.set_device("ve2-sim");
  spec.add_tag("fast");
  ASSERT_TRUE(CompleteSpec(&spec).ok());
  const auto steps = PlanSteps(spec);
  EXPECT_EQ(steps[0].need.kind, NeedKind::kCpu);
  EXPECT_EQ(steps[3].need.kind, NeedKind::kCompile);
  EXPECT_EQ(steps[3].need.device, "ve2-sim");
  EXPECT_EQ(steps[3].need.scheme, "vint8");
  EXPECT_EQ(steps[4].need.kind, NeedKind::kExec);
  EXPECT_THAT(steps[4].need.tags, ElementsAre("fast"));
}

TEST(JobPlan, DefaultsOfDeviceAndScheme) {
  gq::v1::JobSpec spec = Spec();
  ASSERT_TRUE(CompleteSpec(&spec).ok());
  EXPECT_EQ(spec.kind(), gq::v1::JOB_KIND_FULL);
  EXPECT_EQ(spec.stage(), gq::v1::STAGE_COMPILE);
  EXPECT_EQ(spec.device(), "ve2");
  EXPECT_EQ(spec.scheme(), "") << "the worker's strategy chooses it";
  EXPECT_EQ(PlanSteps(spec)[3].need.scheme, "vint8");
  spec = Spec();
  spec.set_device("xnnpack-cpu");
  ASSERT_TRUE(CompleteSpec(&spec).ok());
  EXPECT_EQ(PlanSteps(spec)[3].need.scheme, "W8-A8");
  spec = Spec();
  spec.set_scheme("W4-A8_dynamic");
  ASSERT_TRUE(CompleteSpec(&spec).ok());
  EXPECT_EQ(spec.device(), "") << "the first registered one that takes the scheme";
  spec = Spec();
  spec.set_config_name("full_bf16");
  ASSERT_TRUE(CompleteSpec(&spec).ok());
  EXPECT_EQ(spec.scheme(), "") << "the configuration decides";
}

TEST(JobPlan, MixedSchemeWithoutNamedLayersSearchesForThem) {
  gq::v1::JobSpec spec = Spec();
  spec.set_scheme("vint8+bf16");
  gq::v1::JobSpec named = spec;
  ASSERT_TRUE(CompleteSpec(&spec).ok());
  EXPECT_TRUE(spec.explore());
  EXPECT_EQ(spec.explore_strategy(), "sensitivity");
  named.add_fp_nodes("/head/*");
  ASSERT_TRUE(CompleteSpec(&named).ok());
  EXPECT_FALSE(named.explore());
}

TEST(JobPlan, FaultyRequestsNameTheField) {
  const auto refused = [](auto change) {
    gq::v1::JobSpec spec = Spec();
    change(&spec);
    const absl::Status status = CompleteSpec(&spec);
    EXPECT_EQ(GetReason(status), Reason::kInvalidFlag) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](auto* s) { s->clear_model(); }), HasSubstr("`model`"));
  EXPECT_THAT(refused([](auto* s) { s->set_priority(101); }), HasSubstr("`priority`"));
  EXPECT_THAT(refused([](auto* s) { s->set_visibility("public"); }), HasSubstr("`visibility`"));
  EXPECT_THAT(refused([](auto* s) { s->set_num_samples(0); }), HasSubstr("`num_samples`"));
  EXPECT_THAT(refused([](auto* s) { s->mutable_run_timeout()->set_seconds(-1); }),
              HasSubstr("`run_timeout`"));
  EXPECT_THAT(refused([](auto* s) {
                s->set_config_name("full_vint8");
                s->set_config_json("{}");
              }),
              HasSubstr("`config_json`"));
  EXPECT_THAT(refused([](auto* s) { *s->add_calibration_data() = File("../c.npz"); }),
              HasSubstr("`calibration_data`"));
  EXPECT_THAT(refused([](auto* s) { *s->mutable_labels() = File("a/b.npy"); }),
              HasSubstr("`labels`"));
  for (const char* name : {"../w.bin", "/etc/w.bin", "a//b", "./w.bin", "a/..", ""}) {
    EXPECT_THAT(refused([&](auto* s) { *s->mutable_model()->add_external_data() = File(name); }),
                HasSubstr("`model`"))
        << name;
  }
  EXPECT_THAT(refused([](auto* s) { *s->mutable_model()->add_external_data() = File("m.onnx"); }),
              HasSubstr("same name"));
}

TEST(JobPlan, EveryFileIsReferredTo) {
  gq::v1::JobSpec spec = Spec();
  *spec.mutable_model()->add_external_data() = File("weights/w.bin", 'b');
  *spec.mutable_reference()->mutable_file() = File("fp32.onnx", 'c');
  *spec.add_calibration_data() = File("c.npz", 'd');
  *spec.add_evaluation_data() = File("e.npz", 'e');
  *spec.mutable_labels() = File("l.npy", 'f');
  EXPECT_TRUE(CompleteSpec(&spec).ok());
  std::string digits;
  for (const auto& digest : BlobsOf(spec)) digits += digest.sha256()[0];
  EXPECT_EQ(digits, "abcdef");
}

}  // namespace
}  // namespace gq::server
