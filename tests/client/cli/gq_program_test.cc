// The real program gq against a scripted server.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/cli/scripted_server.h"
#include "tests/temporary_folder.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr char kLog[] =
    "2026-08-21T14:08:22.000Z INFO Banner [1/1] Analyze\n"
    "2026-08-21T14:08:22.001Z INFO Workflow Analyze started\n"
    "2026-08-21T14:08:25.000Z WARN Model an \033[31modd\033[0m name\n"
    "2026-08-21T14:10:15.000Z DONE Workflow Analyze completed (1m 52s)\n";

constexpr char kRendered[] =
    "============================================================\n"
    "[1/1] Analyze\n"
    "============================================================\n"
    "2026-08-21 14:08.22 [INFO ] [Workflow] Analyze started\n"
    "2026-08-21 14:08.25 [WARN ] [Model] an odd name\n"
    "\n"
    "2026-08-21 14:10.15 [DONE ] [Workflow] Analyze completed (1m 52s)\n";

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class GqProgramTest : public testing::Test {
 protected:
  GqProgramTest() {
    server_ = std::make_unique<ScriptedServer>((folder_ / "s").string());
    server_->log = kLog;
    gq::v1::Step& step = *server_->final_job.add_steps();
    step.set_title("Analyze");
    step.set_state(gq::v1::STEP_STATE_SUCCEEDED);
    // ModelProto with ir_version 8 and an empty graph.
    std::ofstream(folder_ / "m.onnx") << std::string("\x08\x08\x3a\x00", 4);
    std::ofstream(folder_ / "d.npy") << "data";
  }

  // Starts gq with `arguments` and its output in files.
  pid_t Start(std::vector<std::string> arguments) {
    const char* bin = std::getenv("GQ_BIN_DIR");
    arguments.insert(arguments.begin(), StrCat(bin == nullptr ? "." : bin, "/gq"));
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    const std::string out = (folder_ / "out").string();
    const std::string err = (folder_ / "err").string();
    const std::string home = folder_.string();
    const std::string address = server_->address();
    const pid_t child = fork();
    if (child == 0) {
      if (std::freopen(out.c_str(), "w", stdout) == nullptr) _exit(99);
      if (std::freopen(err.c_str(), "w", stderr) == nullptr) _exit(99);
      setenv("HOME", home.c_str(), 1);
      setenv("GQ_SERVER", address.c_str(), 1);
      unsetenv("GQ_TOKEN_FILE");
      unsetenv("XDG_CONFIG_HOME");
      if (chdir(home.c_str()) != 0) _exit(99);
      execv(words[0], words.data());
      _exit(98);
    }
    return child;
  }

  Outcome Wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadAll(folder_ / "out"),
            ReadAll(folder_ / "err")};
  }

  Outcome Run(std::vector<std::string> arguments) { return Wait(Start(std::move(arguments))); }

  std::vector<json> Events(const std::string& text) {
    std::vector<json> events;
    for (std::string_view line : base::StrSplit(text, '\n')) {
      if (!line.empty()) events.push_back(json::parse(line, nullptr, false));
    }
    return events;
  }

  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::unique_ptr<ScriptedServer> server_;
};

TEST_F(GqProgramTest, RunShowsTheLogAndFetchesTheResults) {
  server_->artifacts = {
      {"model_quantized.onnx", "model"}, {"compile/x.json", "{}"}, {"model_float.onnx", "big"}};
  const Outcome outcome =
      Run({"run", "--model", "m.onnx", "--calibration-data", "d.npy", "--utc", "--name", "n"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(kRendered));
  EXPECT_THAT(outcome.out, HasSubstr("Files in gq-runs/01TESTJOB"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\033")));
  const fs::path results = folder_ / "gq-runs/01TESTJOB";
  EXPECT_EQ(ReadAll(results / "model_quantized.onnx"), "model");
  EXPECT_EQ(ReadAll(results / "compile/x.json"), "{}");
  EXPECT_EQ(ReadAll(results / "report.json"), "{}");
  EXPECT_THAT(ReadAll(results / "report.html"), HasSubstr("<!doctype html>"));
  EXPECT_EQ(ReadAll(results / "log.txt"), kRendered);
  EXPECT_FALSE(fs::exists(results / "model_float.onnx"));
  ASSERT_EQ(server_->created.size(), 1u);
  EXPECT_EQ(server_->created[0].job().model().file().name(), "m.onnx");
  EXPECT_EQ(server_->created[0].job().calibration_data(0).name(), "d.npy");
  EXPECT_EQ(server_->created[0].job().name(), "n");
  EXPECT_FALSE(server_->created[0].request_id().empty());
}

TEST_F(GqProgramTest, ARetriedSubmitKeepsItsRequestId) {
  server_->create_failures = 2;
  EXPECT_EQ(Run({"run", "--model", "m.onnx", "--detach"}).exit_code, 0);
  ASSERT_EQ(server_->created.size(), 3u);
  EXPECT_EQ(server_->created[0].request_id(), server_->created[2].request_id());
}

TEST_F(GqProgramTest, ALogThatBreaksOffGoesOnWithoutLossOrRepetition) {
  server_->break_log_after = 100;
  const Outcome outcome = Run({"logs", "@last", "-f", "--utc"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, kRendered);
}

TEST_F(GqProgramTest, LogsCanBeRawAndBeginInTheMiddle) {
  EXPECT_EQ(Run({"logs", "01", "--raw"}).out, kLog);
  const std::string rest = std::string(kLog).substr(51);
  EXPECT_EQ(Run({"logs", "01", "--raw", "--since", "1:51"}).out, rest);
  EXPECT_EQ(Run({"logs", "01", "--since", "soon"}).exit_code, 2);
}

TEST_F(GqProgramTest, QuietKeepsWarnings) {
  const Outcome outcome = Run({"logs", "01", "-q", "--utc"});
  EXPECT_EQ(outcome.out, kRendered);
}

TEST_F(GqProgramTest, JsonGivesOneEventALine) {
  server_->final_job.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  server_->report = R"({"evaluate":{"verdict":{"result":"goal_not_met","default_goal":true}}})";
  const Outcome outcome = Run({"run", "--model", "m.onnx", "--json"});
  EXPECT_EQ(outcome.exit_code, 10) << outcome.err;
  const std::vector<json> events = Events(outcome.out);
  ASSERT_GE(events.size(), 6u);
  EXPECT_EQ(events.front()["event"], "submitted");
  EXPECT_EQ(events.front()["job"], "01TESTJOB");
  EXPECT_EQ(events.back()["event"], "result");
  EXPECT_EQ(events.back()["exit_code"], 10);
  EXPECT_EQ(events.back()["verdict"]["default_goal"], true);
  int lines = 0;
  for (const json& event : events) {
    ASSERT_TRUE(event.is_object());
    if (event["event"] != "log") continue;
    ++lines;
    if (lines == 3) {
      EXPECT_EQ(event["text"], "an odd name");
      EXPECT_EQ(event["level"], "WARN");
      EXPECT_EQ(event["offset"], 106);
    }
  }
  EXPECT_EQ(lines, 4);
}

TEST_F(GqProgramTest, AMissedGoalNamesTheCommandToTryNext) {
  server_->final_job.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  const Outcome outcome = Run({"run", "--model", "m.onnx", "--target-accuracy", "psnr>30"});
  EXPECT_EQ(outcome.exit_code, 10) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("Try next: gq run --model m.onnx --target-accuracy 'psnr>30' "));
}

TEST_F(GqProgramTest, AFailedJobEndsWithItsReason) {
  server_->final_job.set_state(gq::v1::JOB_STATE_FAILED);
  server_->final_job.mutable_failure()->set_reason("MODEL_INVALID");
  server_->final_job.mutable_failure()->set_message("node 'x' has no output");
  server_->final_job.mutable_failure()->set_hint("export it again");
  const Outcome outcome = Run({"run", "--model", "m.onnx"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "error: node 'x' has no output (MODEL_INVALID)\nhint: export it again\n");
}

TEST_F(GqProgramTest, InterruptDetachesAndSaysHowToGoOn) {
  server_->runs_until_cancelled = true;
  const pid_t child = Start({"run", "--model", "m.onnx", "--utc"});
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (ReadAll(folder_ / "out").find("completed") == std::string::npos &&
         absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  kill(child, SIGINT);
  const Outcome outcome = Wait(child);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("detached; job 01TESTJOB goes on\n  follow:  gq logs"));
  EXPECT_THAT(outcome.err, HasSubstr(StrCat("gq logs 01TESTJOB -f --since 1:", sizeof kLog - 1)));
  EXPECT_THAT(outcome.err, HasSubstr("gq jobs cancel 01TESTJOB"));
  EXPECT_FALSE(server_->cancelled);
}

TEST_F(GqProgramTest, CancelAndWait) {
  server_->runs_until_cancelled = true;
  server_->final_job.set_state(gq::v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"jobs", "cancel", "@last"}).out, "01TESTJOB CANCELLED\n");
  EXPECT_TRUE(server_->cancelled);
  const Outcome outcome = Run({"jobs", "wait", "@last"});
  EXPECT_EQ(outcome.exit_code, 8);
  EXPECT_EQ(outcome.out, "01TESTJOB CANCELLED\n");
}

TEST_F(GqProgramTest, ErrorsHaveReasonsAndExitCodes) {
  Outcome outcome = Run({"jobs", "show", "nope"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.err, "error: no job nope (NOT_FOUND)\n");
  outcome = Run({"jobs", "show", "nope", "--json"});
  EXPECT_EQ(Events(outcome.out).at(0)["error"]["reason"], "NOT_FOUND");
  outcome = Run({"jobs", "list", "--server", StrCat("unix:", (folder_ / "nobody").string())});
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_THAT(outcome.err, HasSubstr("(SERVER_UNREACHABLE)"));
  outcome = Run({"run", "--model", "m.onnx", "--explore-strategy", "best"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("(INVALID_FLAG)"));
  outcome = Run({"run", "--model", "m.onnx", "--target-accuracy", "beauty>3"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("(TARGET_INVALID)"));
  EXPECT_TRUE(server_->created.empty());
}

TEST_F(GqProgramTest, AServerCannotMakeTheClientWriteElsewhere) {
  server_->artifacts = {{"../evil", "x"}};
  const Outcome outcome = Run({"artifacts", "@last", "--get", "results"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "evil"));
}

TEST_F(GqProgramTest, ListsAreTablesOrJson) {
  EXPECT_THAT(Run({"boards", "list"}).out, HasSubstr("ve2-sim (simulated)"));
  const Outcome outcome = Run({"jobs", "list", "--json"});
  EXPECT_EQ(Events(outcome.out).at(0)["id"], "01TESTJOB");
}

TEST_F(GqProgramTest, EveryCommandHasHelpWithExamples) {
  for (const char* command : {"run", "analyze", "evaluate", "compile", "logs", "report",
                              "artifacts", "ledger", "doctor", "completion"}) {
    const Outcome outcome = Run({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Examples:")) << command;
  }
}

TEST_F(GqProgramTest, CompletionScriptsAreValidShell) {
  const Outcome outcome = Run({"completion", "bash"});
  std::ofstream(folder_ / "completion.bash")
      << outcome.out << "COMP_WORDS=(gq jobs ca); COMP_CWORD=2; _gq; echo \"${COMPREPLY[0]}\"\n"
      << "COMP_WORDS=(gq run --mode re); COMP_CWORD=3; _gq; echo \"${COMPREPLY[0]}\"\n";
  const std::string command = StrCat("bash ", (folder_ / "completion.bash").string(), " > ",
                                     (folder_ / "completed").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadAll(folder_ / "completed"), "cancel\nrequantize\n");
  EXPECT_THAT(Run({"completion", "fish"}).out, HasSubstr("complete -c gq"));
  EXPECT_EQ(Run({"completion", "tcsh"}).exit_code, 2);
}

}  // namespace
}  // namespace gq::cli
