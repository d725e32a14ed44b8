#include "common/job/flags.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"

namespace gq::job {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<JobRequest> Parse(std::vector<std::string> arguments, Verb verb = kVerbRun,
                                 Program program = Program::kClient) {
  CLI::App app("test", "gq");
  CLI::App* command = app.add_subcommand("run", "runs");
  JobFlags flags(*command, verb, program);
  arguments.insert(arguments.begin(), "run");
  auto parsed = ParseCommandLine(app, std::move(arguments));
  if (!parsed.ok()) return parsed.status();
  return flags.Take();
}

TEST(JobFlags, FillsTheRequest) {
  const auto request = Parse({"--model",
                              "m.onnx",
                              "--calibration-data",
                              "a.npz",
                              "b",
                              "--scheme",
                              "vint8",
                              "--exclude",
                              "x, y",
                              "--exclude=z",
                              "--target-accuracy",
                              "psnr>30,cosine>0.99",
                              "--target-accuracy",
                              "top1>=fp32-1%",
                              "--num-samples",
                              "8",
                              "--seed",
                              "7",
                              "--atol",
                              "0.5",
                              "--label",
                              "team=a=b",
                              "--queue-timeout",
                              "2h",
                              "--priority",
                              "-5",
                              "--stage",
                              "quantize",
                              "--input-shape",
                              "a=b=1x3",
                              "--calibration-method",
                              "MinMSE",
                              "--yes"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->local.model, "m.onnx");
  EXPECT_THAT(request->local.calibration_data, ElementsAre("a.npz", "b"));
  EXPECT_EQ(request->spec.kind(), gq::v1::JOB_KIND_FULL);
  EXPECT_EQ(request->spec.stage(), gq::v1::STAGE_QUANTIZE);
  EXPECT_EQ(request->spec.scheme(), "vint8");
  EXPECT_EQ(request->spec.calibration_method(), "minmse") << "Quark's spelling is understood";
  EXPECT_THAT(request->spec.exclude(), ElementsAre("x", "y", "z"));
  EXPECT_THAT(request->spec.target_accuracy(),
              ElementsAre("psnr>30", "cosine>0.99", "top1>=fp32-1%"));
  EXPECT_EQ(request->spec.num_samples(), 8);
  EXPECT_EQ(request->spec.seed(), 7);
  EXPECT_EQ(request->spec.atol(), 0.5);
  EXPECT_EQ(request->spec.label().at("team"), "a=b");
  EXPECT_EQ(request->spec.queue_timeout().seconds(), 7200);
  EXPECT_EQ(request->spec.priority(), -5);
  EXPECT_THAT(request->spec.input_shape(), ElementsAre("a=b=1x3"));
  EXPECT_TRUE(request->spec.consent());
}

TEST(JobFlags, LeavesDefaultsUnset) {
  const auto request = Parse({"--model", "m.onnx"});
  ASSERT_TRUE(request.ok()) << request.status();
  gq::v1::JobSpec expected;
  expected.set_kind(gq::v1::JOB_KIND_FULL);
  EXPECT_EQ(request->spec.SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(request->local.work_dir, "gq-runs");
}

TEST(JobFlags, NamesTheClosestFlag) {
  const auto request = Parse({"--model", "m.onnx", "--calibation-data", "x"});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(GetReason(request.status()), Reason::kInvalidFlag);
  EXPECT_THAT(std::string(request.status().message()), HasSubstr("--calibation-data"));
  EXPECT_THAT(base::GetHint(request.status()), HasSubstr("did you mean --calibration-data"));
}

struct BadLine {
  std::vector<std::string> arguments;
  Reason reason;
  std::string text;
};

class JobFlagsRefuse : public testing::TestWithParam<BadLine> {};

TEST_P(JobFlagsRefuse, WithReason) {
  std::vector<std::string> arguments = {"--model", "m.onnx"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const auto request = Parse(arguments);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(GetReason(request.status()), GetParam().reason) << request.status();
  EXPECT_THAT(std::string(request.status().message()), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Values, JobFlagsRefuse,
    testing::Values(
        BadLine{{"--mode", "ful"}, Reason::kInvalidFlag, "expected one of full, dry-run"},
        BadLine{{"--scheme", "int8"}, Reason::kSchemeIllegal, "expected one of vint8"},
        BadLine{{"--num-samples", "0"}, Reason::kInvalidFlag, "from 1 to"},
        BadLine{{"--num-samples", "many"}, Reason::kInvalidFlag, "an integer"},
        BadLine{{"--atol", "-1"}, Reason::kInvalidFlag, "0 or more"},
        BadLine{{"--atol", "inf"}, Reason::kInvalidFlag, "0 or more"},
        BadLine{{"--atol", "nan"}, Reason::kInvalidFlag, "0 or more"},
        BadLine{{"--priority", "101"}, Reason::kInvalidFlag, "-100 to 100"},
        BadLine{{"--calibration-method", "median"}, Reason::kInvalidFlag, "one of minmax"},
        BadLine{{"--calibration-method", "percentile:12"}, Reason::kInvalidFlag, "above 50"},
        BadLine{{"--calibration-method", "minmax:3"}, Reason::kInvalidFlag, "nothing after"},
        BadLine{{"--input-shape", "x"}, Reason::kInvalidFlag, "NAME=DIM"},
        BadLine{{"--input-shape", "x=1x0"}, Reason::kInvalidFlag, "positive"},
        BadLine{{"--label", "team"}, Reason::kInvalidFlag, "KEY=VALUE"},
        BadLine{{"--run-timeout", "soon"}, Reason::kInvalidFlag, "like 30s"},
        BadLine{{"--run-timeout", "0s"}, Reason::kInvalidFlag, "like 30s"},
        BadLine{{"--target-accuracy", "good"}, Reason::kInvalidFlag, "METRIC OP NUMBER"},
        BadLine{{"--exclude", "a,,b"}, Reason::kInvalidFlag, "empty value"},
        BadLine{{"--scheme", ""}, Reason::kInvalidFlag, "empty value"},
        BadLine{{"--scheme"}, Reason::kInvalidFlag, "--scheme"},
        BadLine{{"--seed", "1", "--seed", "2"}, Reason::kInvalidFlag, "given 2 times"},
        BadLine{{"--config", "no/such.json"}, Reason::kFileNotFound, "neither a file nor"},
        BadLine{{"--config", "/"}, Reason::kFileUnreadable, "cannot be read"},
        BadLine{{"--labels", "l.npy"}, Reason::kInvalidFlag, "needs --evaluation-data"},
        BadLine{{"--quiet", "--verbose"}, Reason::kInvalidFlag, "exclude each other"},
        BadLine{{"--reference", "f.onnx"}, Reason::kInvalidFlag, "--mode requantize"},
        BadLine{{"stray"}, Reason::kInvalidFlag, "stray"}));

TEST(JobFlags, WantAModel) {
  const auto request = Parse({"--scheme", "vint8"});
  ASSERT_FALSE(request.ok());
  EXPECT_THAT(std::string(request.status().message()), HasSubstr("--model is missing"));
}

TEST(JobFlags, TakeTheModelAsArgumentOfOtherVerbs) {
  const auto request = Parse({"m.onnx", "--reference", "f.onnx"}, kVerbEvaluate);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->local.model, "m.onnx");
  EXPECT_EQ(request->local.reference, "f.onnx");
  EXPECT_EQ(request->spec.kind(), gq::v1::JOB_KIND_EVALUATE);
}

TEST(JobFlags, GiveTheWorkerNoClientFlags) {
  EXPECT_FALSE(Parse({"m.onnx", "--detach"}, kVerbQuantize, Program::kWorker).ok());
  const auto request = Parse({"m.onnx", "--scheme", "xint8"}, kVerbQuantize, Program::kWorker);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->spec.stage(), gq::v1::STAGE_QUANTIZE);
}

TEST(Config, IsAPresetOrAFile) {
  auto request = Parse({"--model", "m.onnx", "--config", "full_vint8"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->spec.config_name(), "full_vint8");

  request = Parse({"--model", "m.onnx", "--config", "full_vint8.json"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->spec.config_name(), "full_vint8");

  const tests::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "flags_test_config.json";
  std::ofstream(path) << "{\"a\": 1}";
  request = Parse({"--model", "m.onnx", "--config", path.string()});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->spec.config_json(), "{\"a\": 1}");
  EXPECT_EQ(request->spec.config_file_name(), "flags_test_config.json");
  EXPECT_EQ(request->spec.config_name(), "");
}

TEST(UnavailableFlags, AreRefusedByName) {
  for (std::string_view entry : UnavailableFlags()) {
    const size_t equals = entry.find('=');
    const FlagDef* flag = FindFlag(entry.substr(0, equals));
    ASSERT_NE(flag, nullptr) << entry;
    std::vector<std::string> values;
    if (equals != std::string_view::npos) {
      values.emplace_back(entry.substr(equals + 1));
    } else if (flag->shape != FlagShape::kSwitch) {
      values.push_back(flag->legal.empty() ? "1" : std::string(flag->legal[0]));
    }
    JobRequest request;
    const absl::Status status = ApplyFlag(*flag, values, request);
    EXPECT_EQ(GetReason(status), Reason::kNotAvailable) << entry << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(base::StrCat("not available yet: --", flag->name)));
  }
}

TEST(FlagTable, HasDistinctNamesAndHelp) {
  std::set<std::string_view> names;
  for (const FlagDef& flag : AllFlags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    EXPECT_FALSE(flag.default_text.empty()) << flag.name;
    EXPECT_NE(flag.verbs, 0u) << flag.name;
    EXPECT_EQ(flag.value_name.empty(), flag.shape == FlagShape::kSwitch) << flag.name;
  }
}

TEST(Help, FitsATerminal) {
  CLI::App app("test", "gq");
  app.formatter(MakeHelpFormatter());
  CLI::App* command = app.add_subcommand("run", "runs");
  JobFlags flags(*command, kVerbRun, Program::kClient);
  const auto parsed = ParseCommandLine(app, {"run", "--help"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->outcome, ParseOutcome::kDone);
  for (std::string_view line : base::StrSplit(parsed->text, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  for (const FlagDef& flag : AllFlags()) {
    if (flag.verbs & kVerbRun) {
      EXPECT_THAT(parsed->text, HasSubstr(base::StrCat("--", flag.name)));
    }
  }
}

}  // namespace
}  // namespace gq::job
