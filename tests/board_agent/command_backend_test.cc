// The backend `command` with the harnesses of the tree.
#include <filesystem>
#include <fstream>

#include "tests/board_agent/agent_fixture.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class CommandBackendTest : public GqAgentTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c pass 2> /dev/null") != 0) GTEST_SKIP() << "there is no python3";
  }
  static std::string Example(const std::string& name) {
    return fs::absolute("board_agent/examples/" + name).string();
  }
  void StartCommand(const std::string& device, const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"--backend", "command",  "--board",
                                          "bench",     "--device", device};
    for (const std::string& option : options) {
      arguments.insert(arguments.end(), {"--board-option", option});
    }
    StartWith(arguments);
  }
  void StartExample() {
    StartCommand("xnnpack-bench", {"command=" + Example("harness.py"),
                                   "x.gq_agent=" + fs::absolute(Program()).string()});
  }
  gq::v1::Lease Lease(const std::string& id, gq::v1::StepKind kind) {
    gq::v1::Lease lease = CompileLease(id);
    lease.set_board("bench");
    lease.set_kind(kind);
    lease.mutable_spec()->set_device("");
    return lease;
  }
  gq::v1::BoardReport Board() { return server_.agents.CheckedBoard(); }
};

TEST_F(CommandBackendTest, TheExampleCompilesAndRuns) {
  StartExample();
  server_.agents.Add(Lease("compile", gq::v1::STEP_KIND_COMPILE));
  const gq::v1::StepResult compiled = Result("compile");
  ASSERT_EQ(compiled.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << compiled.failure().message();
  EXPECT_EQ(json::parse(compiled.report_json())["facts"]["compiler"], "none (example)");
  ASSERT_EQ(compiled.artifacts_size(), 1);
  EXPECT_EQ(compiled.artifacts(0).path(), "compile/probe/probe.onnx");
  EXPECT_THAT(server_.agents.Get("compile").log, HasSubstr("INFO Compile checking probe.onnx"));

  server_.agents.Add(Lease("run", gq::v1::STEP_KIND_BOARD_RUN));
  const gq::v1::StepResult run = Result("run");
  ASSERT_EQ(run.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << run.failure().message();
  const auto report = json::parse(run.report_json());
  EXPECT_EQ(report["backend"], "command");
  EXPECT_EQ(report["simulated"], false);
  EXPECT_GT(report["outputs"][0]["cosine"], 0.9999);
  EXPECT_GT(report["samples_ms"].size(), 1U);
  EXPECT_EQ(Board().health(), gq::v1::BOARD_HEALTH_GOOD) << Board().health_detail();
  EXPECT_THAT(server_.agents.last_request().capabilities(),
              ElementsAre("compile:command", "exec:xnnpack-bench"));
}

TEST_F(CommandBackendTest, TheEthosFrameSaysWhatItLacks) {
  StartCommand("ethos-u-85", {"command=" + Example("ethos_u.py"), "x.vela=no-such-vela"});
  server_.agents.Add(Lease("a", gq::v1::STEP_KIND_COMPILE));
  EXPECT_THAT(Result("a").skip_reason(), HasSubstr("no-such-vela is not there"));
  EXPECT_THAT(Board().absent(), Contains(HasSubstr("exec: no runner for the board")));
  EXPECT_THAT(Board().schemes(), ElementsAre("W8-A8", "W8-A16"));
  EXPECT_EQ(Board().health(), gq::v1::BOARD_HEALTH_BAD);
}

TEST_F(CommandBackendTest, TheEthosFrameRunsItsTools) {
  const fs::path tools = folder_.path() / "tools";
  fs::create_directories(tools);
  // A converter and a compiler that leave the files that the real ones do.
  std::ofstream(tools / "convert") << "#!/bin/sh\ncp $1 $2\n";
  std::ofstream(tools / "vela")
      << "#!/bin/sh\nfor last; do :; done\nfolder=$(dirname $last)\n"
         "name=$(basename $last .tflite)\ncp $last $folder/${name}_vela.tflite\n"
         "printf 'accelerator_configuration,cycles_total\\nEthos_U55_128,4711\\n' > "
         "$folder/${name}_summary_Internal.csv\n";
  fs::permissions(tools / "convert", fs::perms::owner_all);
  fs::permissions(tools / "vela", fs::perms::owner_all);
  StartCommand("ethos-u-55",
               {"command=" + Example("ethos_u.py"), "x.vela=" + (tools / "vela").string(),
                "x.converter=" + (tools / "convert").string() + " {onnx} {tflite}"});
  server_.agents.Add(Lease("a", gq::v1::STEP_KIND_COMPILE));
  const gq::v1::StepResult result = Result("a");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.failure().message();
  EXPECT_EQ(json::parse(result.report_json())["facts"]["cycles_total"], "4711");
}

TEST_F(CommandBackendTest, AHarnessThatDiesFailsTheStep) {
  const fs::path program = folder_.path() / "bad.sh";
  std::ofstream(program)
      << "#!/bin/sh\n[ \"${1%compile*}\" = \"$1\" ] || { echo on fire >&2; exit 9; }\n"
         "out=$(sed -n 's/.*\"response\": \"\\(.*\\)\".*/\\1/p' $1)\n"
         "echo '{\"schema\":1,\"ok\":true,\"can\":[\"compile\"]}' > $out\n";
  fs::permissions(program, fs::perms::owner_all);
  StartCommand("toaster", {"command=" + program.string()});
  server_.agents.Add(Lease("a", gq::v1::STEP_KIND_COMPILE));
  const gq::v1::StepResult result = Result("a");
  EXPECT_EQ(result.failure().reason(), "COMPILE_FAILED");
  EXPECT_THAT(result.failure().message(), HasSubstr("ended with status 9 and left no response"));
  EXPECT_THAT(result.failure().message(), HasSubstr("on fire"));
}

TEST_F(CommandBackendTest, AMissingCommandIsRefusedAtTheStart) {
  StartCommand("toaster", {});
  EXPECT_EQ(WaitForExit(), 2);
}

}  // namespace
}  // namespace gq::agent
