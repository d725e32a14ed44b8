// Exploration, dry-run and the error by layer as a user and a server run them.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/rpc/step_channel.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "google/rpc/status.pb.h"
#include "gq/v1/agent_service.pb.h"
#include "nlohmann/json.hpp"
#include "tests/server/worker/step_process.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using gq::v1::Iteration;
using nlohmann::json;
using testing::HasSubstr;

class ExploreTest : public StepProcessTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    WriteChain("m.onnx", 8);
    WriteSamples("x.npy", 6);
    spec_.mutable_model()->mutable_file()->set_name("m.onnx");
    spec_.add_calibration_data()->set_name("x.npy");
    spec_.add_target_accuracy("psnr>=200");  // out of reach
    spec_.set_atol(1e-7);                    // a pass rate that does not end the search at once
    spec_.set_rtol(1e-7);
    spec_.set_recover("none");
    spec_.set_explore(true);
    step_index_ = 3;
  }

  // `layers` convolutions of two channels with a Relu each.
  void WriteChain(const std::string& name, int layers) const {
    std::string constants, body, input = "x";
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i);
      constants += (i == 0 ? "" : ", ") + std::string("float[2,2,1,1] w") + n + " = {0.7, 0.11, " +
                   (i % 3 == 0 ? "-0.013" : "0.31") + ", 0.93}";
      const std::string output = i + 1 == layers ? "y" : "r" + n;
      body += "c" + n + " = Conv(" + input + ", w" + n + ") " + output + " = Relu(c" + n + ") ";
      input = output;
    }
    WriteModel(name,
               "g (float[1,2,4,4] x) => (float[1,2,4,4] y) <" + constants + "> { " + body + "}");
  }

  void RunBefore() {
    for (const auto& [kind, work] :
         std::map<gq::v1::StepKind, std::string>{{gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "w1"},
                                                 {gq::v1::STEP_KIND_GRAPH_QUANTIZE, "w2"},
                                                 {gq::v1::STEP_KIND_EVALUATE, "w3"}}) {
      const gq::v1::StepResult result = RunStep(kind, work);
      ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.DebugString();
    }
  }

  // Runs the step as the session of a worker does, and records its iterations. With `most` the step
  // is killed with SIGKILL instead of being told that number `most + 1` is recorded.
  std::vector<Iteration> RunRecorded(const std::string& work, size_t most = SIZE_MAX) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const std::string program = fs::absolute(program_).string();
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      dup2(ends[1], rpc::kStepEventFd);
      setenv(rpc::kStepEventFdVariable, "3", 1);
      if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
      execl(program.c_str(), program.c_str(), "step", Path(work).c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    std::vector<Iteration> recorded;
    std::string buffer, message;
    bool bad = false, killed = false;
    char bytes[4096];
    for (ssize_t n; !killed && (n = read(ends[0], bytes, sizeof bytes)) > 0;) {
      buffer.append(bytes, static_cast<size_t>(n));
      while (!killed && rpc::DecodeFrame(buffer, message, bad)) {
        google::protobuf::Any any;
        Iteration iteration;
        EXPECT_TRUE(any.ParseFromString(message));
        if (!any.UnpackTo(&iteration)) continue;  // progress
        if (recorded.size() == most) {
          kill(child, SIGKILL);
          killed = true;
          break;
        }
        recorded.push_back(iteration);
        const std::string answer = rpc::EncodeFrame(google::rpc::Status().SerializeAsString());
        EXPECT_EQ(write(ends[0], answer.data(), answer.size()),
                  static_cast<ssize_t>(answer.size()));
      }
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WIFSIGNALED(status), killed);
    return recorded;
  }
};

TEST_F(ExploreTest, GoesOnAfterKillNine) {
  for (const char* strategy : {"greedy", "sensitivity"}) {
    SCOPED_TRACE(strategy);
    spec_.set_explore_strategy(strategy);
    if (reports_.empty()) RunBefore();
    const std::string name = strategy;
    Prepare(name + "-whole", gq::v1::STEP_KIND_EXPLORE);
    const std::vector<Iteration> whole = RunRecorded(name + "-whole");
    const gq::v1::StepResult expected = Result(name + "-whole");
    ASSERT_EQ(expected.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << expected.DebugString();
    EXPECT_EQ(expected.verdict(), gq::v1::VERDICT_GOAL_NOT_MET);
    ASSERT_GE(whole.size(), 3u);

    Prepare(name + "-killed", gq::v1::STEP_KIND_EXPLORE);
    const std::vector<Iteration> before = RunRecorded(name + "-killed", 2);
    ASSERT_EQ(before.size(), 2u);
    EXPECT_FALSE(fs::exists(Path(name + "-killed/result.pb")));
    Prepare(name + "-again", gq::v1::STEP_KIND_EXPLORE, before);
    const std::vector<Iteration> after = RunRecorded(name + "-again");
    ASSERT_EQ(before.size() + after.size(), whole.size());
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].number(), static_cast<int>(i) + 3);
      EXPECT_EQ(after[i].step_index(), 3);
      EXPECT_EQ(after[i].candidate(), whole[i + 2].candidate());
      EXPECT_EQ(after[i].decision(), whole[i + 2].decision());
      EXPECT_FALSE(after[i].config_json().empty());
    }
    EXPECT_EQ(Text(name + "-again/out/model_quantized.onnx"),
              Text(name + "-whole/out/model_quantized.onnx"));
  }
}

// Explore is handed what recovery made of the float model and does not repeat the passes; without
// these files it finds the same.
TEST_F(ExploreTest, TheSearchTakesWhatRecoveryMade) {
  WriteSamples("x.npy", 32);
  spec_.clear_recover();
  spec_.set_explore_strategy("sensitivity");
  RunBefore();
  const auto made_by_recovery = [](const auto& artifact) {
    return artifact.first.find("_recovered.") != std::string::npos;
  };
  ASSERT_TRUE(std::any_of(artifacts_.begin(), artifacts_.end(), made_by_recovery));
  Prepare("with", gq::v1::STEP_KIND_EXPLORE);
  const std::vector<Iteration> with = RunRecorded("with");
  ASSERT_EQ(Result("with").state(), gq::v1::ATTEMPT_STATE_SUCCEEDED);
  std::erase_if(artifacts_, made_by_recovery);
  Prepare("without", gq::v1::STEP_KIND_EXPLORE);
  const std::vector<Iteration> without = RunRecorded("without");
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i].candidate(), without[i].candidate());
  EXPECT_EQ(Text("with/out/model_quantized.onnx"), Text("without/out/model_quantized.onnx"));
}

// Every model that a search leaves is what its saved configuration makes, those with the integers
// of a recovered start too.
TEST_F(ExploreTest, SavedConfigurationsRepeatTheirModels) {
  WriteSamples("x.npy", 32);
  spec_.clear_recover();
  int after_recovery = 0;
  for (const char* strategy : {"greedy", "sensitivity"}) {
    spec_.set_explore_strategy(strategy);
    if (reports_.empty()) RunBefore();
    const std::string work = strategy;
    Prepare(work, gq::v1::STEP_KIND_EXPLORE);
    RunRecorded(work);
    ASSERT_EQ(Result(work).state(), gq::v1::ATTEMPT_STATE_SUCCEEDED);
    std::vector<fs::path> folders = {Path(work + "/out")};
    for (const auto& entry : fs::directory_iterator(Path(work + "/out/iterations"))) {
      if (fs::exists(entry.path() / "model_quantized.onnx")) folders.push_back(entry.path());
    }
    for (const fs::path& folder : folders) {
      const std::string config = (folder / "quark_config.json").string();
      std::ifstream file(config);
      std::stringstream text;
      text << file.rdbuf();
      after_recovery += text.str().find("promotion_after_recovery") != std::string::npos ? 1 : 0;
      const Outcome outcome = Run({"quantize", "--model", "m.onnx", "--calibration-data", "x.npy",
                                   "--config", config, "--output", "again.onnx"});
      EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
      std::ifstream model(folder / "model_quantized.onnx", std::ios::binary);
      std::stringstream bytes;
      bytes << model.rdbuf();
      EXPECT_TRUE(Text("again.onnx") == bytes.str()) << folder << text.str();
    }
  }
  EXPECT_GT(after_recovery, 0);
}

TEST_F(ExploreTest, TheVerbReturnsTheBestModelWithExitCodeTen) {
  for (const char* const strategy : {"greedy", "sensitivity"}) {
    const Outcome outcome =
        Run({"explore", "--model", "m.onnx", "--calibration-data", "x.npy", "--recover", "none",
             "--explore-strategy", strategy, "--target-accuracy", "psnr>=200", "--output", "q.onnx",
             "--report", "r.json"});
    EXPECT_EQ(outcome.code, 10) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("goal not met"));
    EXPECT_THAT(outcome.out, HasSubstr("max_share"));
    EXPECT_TRUE(fs::exists(Path("q.onnx")));
    const json report = json::parse(Text("r.json"));
    const json& explore = report["explore"];
    EXPECT_EQ(explore["strategy"], strategy);
    EXPECT_FALSE(explore["trace"].empty());
    EXPECT_FALSE(explore["pareto"].empty());
    EXPECT_FALSE(explore["limited_by"].get<std::string>().empty());
    EXPECT_LE(explore["best"]["share"].get<double>(), 0.375);  // 3 of 8: ceil(0.3 * 8)
    // The report shows the best model; what it started from is kept.
    EXPECT_EQ(report["evaluate"]["verdict"]["result"], "goal_not_met");
    EXPECT_TRUE(explore["before"].contains("evaluate"));
    fs::remove(Path("q.onnx"));
  }
}

TEST_F(ExploreTest, AGoalThatIsMetNeedsNoPromotion) {
  const Outcome outcome = Run({"explore", "--model", "m.onnx", "--calibration-data", "x.npy",
                               "--target-accuracy", "psnr>=5", "--explore-strategy", "sensitivity",
                               "--output", "q.onnx", "--report", "r.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json report = json::parse(Text("r.json"));
  EXPECT_EQ(report["explore"]["best"]["layers"], 0);
  EXPECT_EQ(report["explore"]["full_evaluations"], 0);
}

TEST_F(ExploreTest, DryRunComparesAndWritesNothing) {
  const std::string model = Text("m.onnx");
  const std::set<std::string> before = Files();
  const Outcome outcome =
      Run({"dry-run", "--model", "m.onnx", "--calibration-data", "x.npy", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("recommendation: "));
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(Text("m.onnx"), model);
  const size_t last = outcome.out.rfind("{\"", outcome.out.size() - 2);
  ASSERT_NE(last, std::string::npos);
  const Outcome with_report =
      Run({"dry-run", "--model", "m.onnx", "--calibration-data", "x.npy", "--report", "r.json"});
  ASSERT_EQ(with_report.code, 0);
  const json report = json::parse(Text("r.json"))["dry_run"];
  ASSERT_EQ(report["candidates"].size(), 2u);
  EXPECT_EQ(report["candidates"][0]["name"], "BF16");
  EXPECT_GT(report["candidates"][0]["outputs"][0]["psnr_db"].get<double>(), 40);
  EXPECT_GT(report["estimate"]["full_run_seconds"].get<double>(), 0);
}

TEST_F(ExploreTest, AnalyzeRanksTheErrorOfEveryTensor) {
  ASSERT_EQ(
      Run({"quantize", "--model", "m.onnx", "--calibration-data", "x.npy", "--output", "q.onnx"})
          .code,
      0);
  const Outcome outcome = Run({"analyze", "m.onnx", "--quantized", "q.onnx", "--evaluation-data",
                               "x.npy", "--report", "r.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("worst first"));
  const json errors = json::parse(Text("r.json"))["analyze"]["layer_errors"];
  ASSERT_GE(errors.size(), 16u);  // 8 weights, and at least as many activations
  int activations = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    activations += errors[i]["class"] == "activation";
    if (i > 0 && errors[i]["snr_db"].is_number()) {
      EXPECT_LE(errors[i - 1]["snr_db"].get<double>(), errors[i]["snr_db"].get<double>());
    }
  }
  EXPECT_GE(activations, 8);
  ExpectError({"analyze", "m.onnx", "--quantized", "m.onnx"}, 2, "NOT_QUANTIZED",
              {"m.onnx", "--quantized"});
}

}  // namespace
}  // namespace gq::worker
