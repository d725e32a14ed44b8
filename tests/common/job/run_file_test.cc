// run.yaml and run.detail.yaml: what they mean, what is refused and how it is said.
#include "common/job/run_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/job/yaml_tree.h"

namespace gq::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The short file of Arm's documentation.
constexpr char kShort[] = R"(steps:
- graph_optimize: null
- graph_quantize:
  - scheme: W8-A8
    automatic_mixed_precision: null
)";
constexpr char kArmDetail[] = R"(detail:
  batch_size: 1
  graph_quantize[0]:
    weight:
      granularity: CHANNEL
      calibration_method: MINMAX
    activation:
      granularity: TENSOR
      calibration_method: PERCENTILE
      percentile: 99.9
    parameters:
      calibration:
        num_samples: -1
)";

absl::StatusOr<RunFile> Parse(const std::string& text, const std::string& detail = "",
                              const std::string& folder = "") {
  return ParseRunFile(text, "run.yaml", detail, detail.empty() ? "" : "run.detail.yaml", folder);
}

JobRequest Applied(const RunFile& file, const std::vector<std::string_view>& given = {}) {
  JobRequest request;
  const auto status = ApplyRunFile(
      file,
      [&](std::string_view name) {
        return std::find(given.begin(), given.end(), name) != given.end();
      },
      request);
  EXPECT_TRUE(status.ok()) << status;
  return request;
}

// The message of an error, which must be `reason`.
std::string Refused(const std::string& text, const std::string& detail = "",
                    base::Reason reason = base::Reason::kConfigInvalid) {
  const auto file = Parse(text, detail);
  absl::Status status = file.status();
  if (file.ok()) {
    JobRequest request;
    status = ApplyRunFile(
        *file, [](std::string_view) { return false; }, request);
  }
  EXPECT_FALSE(status.ok()) << text;
  if (status.ok()) return "";
  EXPECT_EQ(base::GetReason(status), reason) << status;
  return std::string(status.message());
}

std::string WithDetail(const std::string& lines) {
  return "detail:\n  graph_quantize[0]:\n" + lines;
}

TEST(RunFile, TheShortFileOfArmIsAJobOfTwoSteps) {
  const auto file = Parse(kShort);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->steps, ElementsAre("graph_optimize", "graph_quantize"));
  EXPECT_FALSE(file->profile);
  EXPECT_FALSE(file->search);
  const JobRequest request = Applied(*file);
  EXPECT_EQ(request.spec.scheme(), "W8-A8");
  EXPECT_EQ(request.spec.stage(), gq::v1::STAGE_QUANTIZE);
  EXPECT_THAT(request.spec.step(), SizeIs(2));
}

TEST(RunFile, ItsDetailsAreTaken) {
  const auto file = Parse(kShort, kArmDetail);
  ASSERT_TRUE(file.ok()) << file.status();
  const JobRequest request = Applied(*file);
  EXPECT_EQ(request.spec.quantize_detail().batch_size(), 1);
  EXPECT_EQ(request.spec.quantize_detail().weight_granularity(), "CHANNEL");
  EXPECT_EQ(request.spec.calibration_method(), "percentile:99.9");
  EXPECT_FALSE(request.spec.has_num_samples());
}

TEST(RunFile, TheWholeFileIsAJobOfFourSteps) {
  const auto file = Parse(R"(version: "1.0"
model: models/resnet50.onnx
device: xnnpack-cpu
calibration_data: [calib.npz, /data/more.npz, "data:mine"]
evaluation_data: eval.npz
target_accuracy: ["psnr>30"]
stage: compile
allow_nonfinite: true
input_shape: {x: 1x3x224x224, y: [1, 4]}
label: {team: vision}
steps:
- graph_optimize: null
- graph_quantize: {scheme: W8-A8, automatic_mixed_precision: GREEDY}
evaluate: {}
profile: {}
)",
                          "", "jobs");
  ASSERT_TRUE(file.ok()) << file.status();
  const JobRequest request = Applied(*file);
  EXPECT_THAT(file->steps, ElementsAre("graph_optimize", "graph_quantize", "evaluate"));
  EXPECT_EQ(request.local.model, "jobs/models/resnet50.onnx");
  EXPECT_THAT(request.local.calibration_data,
              ElementsAre("jobs/calib.npz", "/data/more.npz", "data:mine"));
  EXPECT_THAT(request.local.evaluation_data, ElementsAre("jobs/eval.npz"));
  EXPECT_THAT(request.spec.input_shape(), ElementsAre("x=1x3x224x224", "y=1x4"));
  EXPECT_EQ(request.spec.label().at("team"), "vision");
  EXPECT_TRUE(request.spec.allow_nonfinite());
  EXPECT_EQ(request.spec.stage(), gq::v1::STAGE_COMPILE);
  EXPECT_TRUE(request.spec.search_in_quantize());
  EXPECT_FALSE(request.spec.explore());
  EXPECT_EQ(request.spec.explore_strategy(), "greedy");
}

TEST(RunFile, FlagsWinOverDetailsAndTheseOverTheFile) {
  const auto file = Parse(std::string("num_samples: 7\ncalibration_method: minmax\n") + kShort,
                          WithDetail("    activation: {calibration_method: PERCENTILE}\n"
                                     "    parameters: {calibration: {num_samples: 9}}\n"));
  ASSERT_TRUE(file.ok()) << file.status();
  const JobRequest details = Applied(*file);
  EXPECT_EQ(details.spec.num_samples(), 9);
  EXPECT_EQ(details.spec.calibration_method(), "percentile:99.9");
  const JobRequest flags = Applied(*file, {"num-samples", "calibration-method", "scheme"});
  EXPECT_FALSE(flags.spec.has_num_samples());
  EXPECT_THAT(flags.spec.calibration_method(), IsEmpty());
  EXPECT_THAT(flags.spec.scheme(), IsEmpty());
}

TEST(RunFile, GraphQuantizeAloneTakesTheModelAsItIs) {
  const auto file = Parse("steps:\n- graph_quantize:\n    scheme: vint8\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->steps, ElementsAre("graph_quantize"));
  EXPECT_THAT(file->notes, ElementsAre(HasSubstr("as it is")));
}

TEST(RunFile, ErrorsNameFileLineColumnAndPath) {
  EXPECT_EQ(
      Refused("steps:\n- graph_quantize:\n  - scheme: W9\n", "", base::Reason::kSchemeIllegal),
      "run.yaml:3:13: steps[0].graph_quantize[0].scheme 'W9': expected one of vint8, bf16, "
      "fp16, vint8+bf16, vint8+fp16, xint8, W8-A8, W8-A8_dynamic, W4-A8_dynamic, W8-A16");
  EXPECT_THAT(Refused("steps:\n- graph_quantize:\n  - shceme: W8-A8\n"),
              HasSubstr("run.yaml:3:5: steps[0].graph_quantize[0].shceme: unknown key"));
  EXPECT_THAT(Refused("model: a\nmodle: b\nsteps: []\n"), HasSubstr("run.yaml:2:1: modle"));
  EXPECT_THAT(Refused("model: [a]\n" + std::string(kShort)),
              HasSubstr("run.yaml:1:8: model: expected a value, found a list"));
  EXPECT_THAT(Refused("num_samples: none\n" + std::string(kShort), "", base::Reason::kInvalidFlag),
              HasSubstr("run.yaml:1:14: num_samples: --num-samples 'none': expected an integer"));
  EXPECT_THAT(Refused("allow_nonfinite: maybe\n" + std::string(kShort)),
              HasSubstr("expected true or false"));
}

TEST(RunFile, TheDeviceDecidesWhichSchemesAreLegal) {
  EXPECT_THAT(Refused("device: ethos-u-85\nsteps:\n- graph_quantize: {scheme: vint8}\n", "",
                      base::Reason::kSchemeIllegal),
              HasSubstr("steps[0].graph_quantize.scheme 'vint8': the device ethos-u-85 takes "
                        "W8-A8, W8-A16"));
}

TEST(RunFile, StepsStandOnceAndInOrder) {
  EXPECT_THAT(Refused("steps:\n- graph_quantize: {scheme: vint8}\n- graph_optimize: null\n"),
              HasSubstr("comes before"));
  EXPECT_THAT(Refused("steps:\n- graph_optimize: null\n- graph_optimize: null\n"),
              HasSubstr("twice"));
  EXPECT_THAT(Refused("steps: []\n"), HasSubstr("at least one step"));
  EXPECT_THAT(Refused("model: m\n"), HasSubstr("the key steps is missing"));
  EXPECT_THAT(Refused("steps:\n- graph_quantize: null\n"), HasSubstr("scheme is required"));
  EXPECT_THAT(Refused("steps:\n- graph_optimize: null\nprofile: {}\n"),
              HasSubstr("no graph_quantize"));
  EXPECT_THAT(Refused("version: \"2.0\"\nsteps:\n- graph_optimize: null\n"), HasSubstr("\"1.0\""));
}

TEST(RunDetail, WhatDoesNotFitTheSchemeIsRefusedWithTheReason) {
  const std::string dynamic = "steps:\n- graph_quantize: {scheme: W8-A8_dynamic}\n";
  EXPECT_THAT(Refused(dynamic, WithDetail("    parameters: {calibration: {num_samples: 4}}\n")),
              HasSubstr("run.detail.yaml:3:31: detail.graph_quantize[0].parameters.calibration: "
                        "ranges are found at run time"));
  EXPECT_THAT(Refused(dynamic, WithDetail("    activation: {calibration_method: MINMAX}\n")),
              HasSubstr("found at run time"));
  EXPECT_THAT(Refused(kShort, WithDetail("    weight: {group_size: 32}\n")),
              HasSubstr("belongs to the scheme W4-A8_dynamic"));
  EXPECT_THAT(Refused(kShort, WithDetail("    weight: {percentile: 99}\n")),
              HasSubstr("belongs to calibration_method PERCENTILE"));
  EXPECT_THAT(Refused(kShort, WithDetail("    activation: {calibration_method: PERCENTILE, "
                                         "percentile: 50}\n")),
              HasSubstr("above 50 and up to 100"));
  EXPECT_THAT(Refused(kShort, WithDetail("    activation: {calibration_method: MINMSE}\n")),
              HasSubstr("expected one of MINMAX, PERCENTILE, ENTROPY"));
  EXPECT_THAT(Refused("steps:\n- graph_quantize: {scheme: vint8}\n",
                      WithDetail("    weight: {granularity: CHANNEL}\n")),
              HasSubstr("one scale a tensor"));
  EXPECT_THAT(Refused(kShort, "detail:\n  graph_quantize[1]: {}\n"),
              HasSubstr("run.detail.yaml:2:22: detail.graph_quantize[1]: there is no such step"));
  EXPECT_THAT(Refused(kShort, "detail:\n  batch_size: 0\n"), HasSubstr("from 1 to 65536"));
}

TEST(RunDetail, LimitsOfTheSearchBecomeTheFlag) {
  const auto file = Parse(kShort, R"(detail:
  mixed_precision: {max_share: 0.25, time_budget: 10m, keep: [a, b], patience: null}
)");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(Applied(*file).spec.explore_limit(),
              ElementsAre("max_share=0.25", "time_budget=10m", "keep=a", "keep=b"));
}

TEST(RunFile, TheTemplatesAreValidAsTheyStand) {
  const auto file = Parse(RunFileTemplate(), RunDetailTemplate());
  ASSERT_TRUE(file.ok()) << file.status();
  const JobRequest request = Applied(*file);
  EXPECT_EQ(request.spec.scheme(), "vint8");
  EXPECT_EQ(request.spec.stage(), gq::v1::STAGE_UNSPECIFIED);
}

TEST(Yaml, HostileFilesAreRefusedAtTheirPlace) {
  const auto error = [](const std::string& text) {
    const auto tree = ParseYaml(text, "f.yaml");
    EXPECT_FALSE(tree.ok()) << text.substr(0, 80);
    return std::string(tree.status().message());
  };
  EXPECT_THAT(error("a: 1\nb: 2\na: 3\n"), HasSubstr("f.yaml:3:1: the key 'a' stands here twice"));
  EXPECT_THAT(error("a: &x 1\nb: *x\n"), HasSubstr("anchors"));
  EXPECT_THAT(error("a: *x\n"), HasSubstr("f.yaml:1"));
  EXPECT_THAT(error("a: !!python/object 1\n"), HasSubstr("tag"));
  EXPECT_THAT(error("? [a, b]\n: 1\n"), HasSubstr("a key must be a plain name"));
  EXPECT_THAT(error("a: 1\n---\nb: 2\n"), HasSubstr("several documents"));
  EXPECT_THAT(error("a: [1, 2\n"), HasSubstr("f.yaml:"));
  EXPECT_THAT(error(std::string("a: \0b", 5)), HasSubstr("zero byte"));
  EXPECT_THAT(error(std::string(100'000, '[')), HasSubstr("f.yaml:1"));
  EXPECT_THAT(error(std::string(40, '[') + std::string(40, ']')), HasSubstr("32 levels"));
  EXPECT_THAT(error("a: " + std::string(2 << 20, 'x')), HasSubstr("at most 1048576"));
  std::string many = "[";
  for (int i = 0; i < 100'001; ++i) many += "1,";
  EXPECT_THAT(error(many + "1]"), HasSubstr("more than 100000 values"));
}

TEST(Yaml, QuotedTextIsNeverNull) {
  const auto tree = ParseYaml("a: null\nb: 'null'\nc: ~\nd:\n", "f.yaml");
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(tree->Find("a")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(tree->Find("b")->kind, YamlNode::Kind::kScalar);
  EXPECT_EQ(tree->Find("c")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(tree->Find("d")->kind, YamlNode::Kind::kNull);
}

}  // namespace
}  // namespace gq::job
