// The backend `vitisai` against stand-ins for the vendor's library and tool.
#include <pwd.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>

#include "board_agent/backends/vitisai/vart_files.h"
#include "common/runtime/ort_library.h"
#include "onnx/onnx_pb.h"
#include "tests/board_agent/agent_fixture.h"
#include "tests/board_agent/ssh_server.h"
#include "tests/temporary_folder.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using rpc::FakeAgentService;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class VitisaiTest : public GqAgentTest {
 protected:
  static std::string Standin(const std::string& file) {
    return (fs::path(GQ_STANDIN_DIR) / file).string();
  }
  static std::string RealLibrary() {
    const auto library = runtime::OrtLibrary::Get();
    return library.ok() ? fs::absolute((*library)->path()).string() : "";
  }

  void StartVitisai(const std::string& behaviour, std::vector<std::string> options = {}) {
    options.insert(options.end(),
                   {"onnxruntime=" + Standin("libgq_standin_onnxruntime.so"),
                    "env.GQ_STANDIN=" + behaviour, "env.GQ_STANDIN_REAL=" + RealLibrary(),
                    "env.GQ_ONNXRUNTIME=" + RealLibrary(), "vart=" + Standin("ml_vart")});
    std::vector<std::string> arguments = {"--backend", "vitisai",  "--board",
                                          "lab",       "--device", "ve2-xc2ve3858"};
    for (const std::string& option : options) {
      arguments.insert(arguments.end(), {"--board-option", option});
    }
    StartWith(arguments);
  }

  gq::v1::Lease Compile(const std::string& id) {
    gq::v1::Lease lease = CompileLease(id);
    lease.set_board("lab");
    lease.mutable_spec()->set_offload_goal("none");
    return lease;
  }

  // Board Run with what a compile left.
  gq::v1::Lease Run(const std::string& id, const gq::v1::StepResult& compiled) {
    gq::v1::Lease lease = Compile(id);
    lease.set_kind(gq::v1::STEP_KIND_BOARD_RUN);
    lease.set_title("Board Run");
    for (const gq::v1::Artifact& artifact : compiled.artifacts()) *lease.add_inputs() = artifact;
    lease.add_earlier_reports(compiled.report_json());
    return lease;
  }

  gq::v1::StepResult CompileAndRun() {
    server_.agents.Add(Compile("compile"));
    const gq::v1::StepResult compiled = Result("compile");
    EXPECT_EQ(compiled.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
        << compiled.failure().message() << server_.agents.Get("compile").log;
    server_.agents.Add(Run("run", compiled));
    return Result("run");
  }

  gq::v1::BoardReport Board() { return server_.agents.CheckedBoard(); }
};

TEST_F(VitisaiTest, CompilesAndRunsWithTheProvider) {
  StartVitisai("", {"npu=yes"});
  const gq::v1::StepResult run = CompileAndRun();
  ASSERT_EQ(run.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << run.failure().message() << server_.agents.Get("run").log;
  const auto compile = json::parse(server_.agents.Get("compile").results[0].report_json());
  EXPECT_EQ(compile["simulated"], false);
  EXPECT_EQ(compile["backend"], "vitisai");
  EXPECT_EQ(compile["partitions"]["npu"], 1);
  EXPECT_EQ(compile["offload"]["gops_percent"], 100.0);
  const auto report = json::parse(run.report_json());
  EXPECT_EQ(report["on_npu"], true);
  EXPECT_EQ(report["simulated"], false);
  EXPECT_GT(report["samples_ms"].size(), 1U);
  EXPECT_GT(report["outputs"][0]["cosine"], 0.9999);
  EXPECT_EQ(report["conditions"]["how"], "ONNX Runtime");
  EXPECT_EQ(report["conditions"]["columns"], 4);
  EXPECT_THAT(Board().absent(), ElementsAre());
  EXPECT_THAT(server_.agents.last_request().capabilities(),
              ElementsAre("compile:vitisai", "exec:ve2-xc2ve3858"));
}

TEST_F(VitisaiTest, AHostWithoutAnNpuCompilesAllTheSame) {
  StartVitisai("no-device", {"npu=no"});
  server_.agents.Add(Compile("a"));
  const gq::v1::StepResult result = Result("a");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.failure().message();
  EXPECT_THAT(server_.agents.Get("a").log, HasSubstr("No such device"));
  EXPECT_THAT(Board().absent(), ElementsAre(HasSubstr("exec: this host has no NPU")));
  EXPECT_EQ(Board().health(), gq::v1::BOARD_HEALTH_GOOD) << Board().health_detail();
}

TEST_F(VitisaiTest, ErrorLinesFailTheStepAlthoughTheSessionExists) {
  StartVitisai("error-lines", {"npu=yes"});
  server_.agents.Add(Compile("a"));
  const gq::v1::StepResult result = Result("a");
  EXPECT_EQ(result.failure().reason(), "COMPILE_FAILED");
  EXPECT_THAT(result.failure().message(), HasSubstr("[aiecompiler 77-753] no buffer"));
}

TEST_F(VitisaiTest, AMissingCompiledModelFailsTheStep) {
  StartVitisai("no-rai", {"npu=yes"});
  server_.agents.Add(Compile("a"));
  EXPECT_THAT(Result("a").failure().message(), HasSubstr("no probe.rai"));
}

TEST_F(VitisaiTest, ASilentFallbackIsReportedAsNotOffloaded) {
  StartVitisai("fallback", {"npu=yes"});
  server_.agents.Add(Compile("a"));
  const gq::v1::StepResult result = Result("a");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.failure().message();
  const auto report = json::parse(result.report_json());
  EXPECT_EQ(report["partitions"]["npu"], 0);
  EXPECT_EQ(report["offload"]["operators_offloaded"], 0);
  EXPECT_EQ(report["offload"]["goal"], "missed");
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("nothing runs on the NPU"));
}

TEST_F(VitisaiTest, ARunThatFallsBackSaysSo) {
  StartVitisai("run-fallback", {"npu=yes"});
  const gq::v1::StepResult run = CompileAndRun();
  ASSERT_EQ(run.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << run.failure().message();
  const auto report = json::parse(run.report_json());
  EXPECT_EQ(report["on_npu"], false);
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("did not run on the NPU"));
  EXPECT_THAT(report["conditions_text"].get<std::string>(), HasSubstr("not on the NPU"));
}

TEST_F(VitisaiTest, ACrashOfTheLibraryIsAFailureOfTheStepOnly) {
  StartVitisai("crash", {"npu=yes"});
  server_.agents.Add(Compile("a"));
  const gq::v1::StepResult result = Result("a");
  EXPECT_EQ(result.failure().reason(), "COMPILE_FAILED");
  EXPECT_THAT(result.failure().message(), HasSubstr("SIGSEGV"));
}

TEST_F(VitisaiTest, WhatIsMissingIsSaid) {
  StartVitisai("absent");
  ASSERT_TRUE(server_.agents.WaitFor("none", [this](const auto&) { return true; }));
  server_.agents.Add(Compile("a"));
  (void)Result("a");
  EXPECT_THAT(Board().absent(),
              ElementsAre(HasSubstr("has no VitisAIExecutionProvider"), HasSubstr("exec: no NPU")));
  EXPECT_EQ(Board().health(), gq::v1::BOARD_HEALTH_BAD);
  EXPECT_THAT(server_.agents.last_request().capabilities(), ElementsAre());
}

TEST_F(VitisaiTest, RunsWithMlVart) {
  StartVitisai("", {"npu=yes", "run=vart"});
  const gq::v1::StepResult run = CompileAndRun();
  ASSERT_EQ(run.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << run.failure().message() << server_.agents.Get("run").log;
  const auto report = json::parse(run.report_json());
  EXPECT_EQ(report["conditions"]["tool"], "ml_vart");
  EXPECT_EQ(report["runs"], 50);
  EXPECT_FALSE(report["latency_ms"].contains("p50"));  // the tool prints a mean only
  EXPECT_GT(report["latency_ms"]["mean"], 0.0);
  EXPECT_GT(report["outputs"][0]["cosine"], 0.9999);
}

TEST_F(VitisaiTest, AWrongOutputOfTheBoardIsNoticed) {
  StartVitisai("", {"npu=yes", "run=vart", "env.GQ_STANDIN_VART=wrong"});
  EXPECT_EQ(CompileAndRun().failure().reason(), "BOARD_FAILED");
}

TEST_F(VitisaiTest, AnActivationScriptSetsUpTheEnvironment) {
  const fs::path script = folder_.path() / "activate.sh";
  std::ofstream(script) << "export GQ_STANDIN=fallback\necho activated\n";
  StartVitisai("", {"npu=yes", "scripts=" + script.string()});
  gq::v1::Lease lease = Compile("a");
  lease.mutable_spec()->set_activation_script(script);
  server_.agents.Add(lease);
  const gq::v1::StepResult result = Result("a");
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED) << result.failure().message();
  EXPECT_EQ(json::parse(result.report_json())["partitions"]["npu"], 0);
  lease.set_lease_id("b");
  lease.mutable_spec()->set_activation_script("/etc/profile");
  server_.agents.Add(lease);
  EXPECT_EQ(Result("b").failure().reason(), "INVALID_FLAG");
  EXPECT_THAT(Result("b").failure().message(), HasSubstr("'/etc/profile' is not allowed"));
}

class SshTest : public VitisaiTest {
 protected:
  void SetUp() override {
    const std::string problem = ssh_.Start(folder_.path() / "ssh");
    if (!problem.empty()) GTEST_SKIP() << problem;
  }
  void StartRemote(std::vector<std::string> more = {}) {
    std::vector<std::string> options = {
        "ssh=" + std::string(::getpwuid(::geteuid())->pw_name) + "@127.0.0.1",
        "ssh_port=" + std::to_string(ssh_.port()),
        "ssh_key=" + (folder_.path() / "ssh/key").string(),
        "ssh_known_hosts=" + (folder_.path() / "ssh/known_hosts").string(),
        "ssh_folder=" + (folder_.path() / "board").string(),
        "ssh_lock=" + Lock().string(),
        "ssh_wait=2"};
    options.insert(options.end(), more.begin(), more.end());
    StartVitisai("", options);
  }
  fs::path Lock() const { return folder_.path() / "board.lock"; }
  bool LockIsFree() const {
    const base::FileDescriptor file(::open(Lock().c_str(), O_RDWR | O_CREAT, 0600));
    return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }
  bool BoardFolderIsEmpty() const {
    std::error_code error;
    return !fs::exists(folder_.path() / "board") || fs::is_empty(folder_.path() / "board", error);
  }

  SshServer ssh_;
};

TEST_F(SshTest, RunsOnABoardAtTheOtherEnd) {
  StartRemote({"env.GQ_STANDIN_VART=bf16"});
  const gq::v1::StepResult run = CompileAndRun();
  ASSERT_EQ(run.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << run.failure().message() << server_.agents.Get("run").log;
  const auto report = json::parse(run.report_json());
  EXPECT_EQ(report["conditions"]["how"], "ml_vart over ssh");
  EXPECT_GT(report["seconds"]["transfer"], 0.0);
  EXPECT_GT(report["outputs"][0]["cosine"], 0.999);
  EXPECT_TRUE(LockIsFree());
  EXPECT_TRUE(BoardFolderIsEmpty());
  EXPECT_EQ(Board().health(), gq::v1::BOARD_HEALTH_GOOD) << Board().health_detail();
}

TEST_F(SshTest, ABoardInUseIsWaitedForAndThenLeftAlone) {
  const base::FileDescriptor held(::open(Lock().c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  StartRemote();
  const gq::v1::StepResult run = CompileAndRun();
  EXPECT_EQ(run.failure().reason(), "BOARD_BUSY") << run.failure().message();
  EXPECT_TRUE(BoardFolderIsEmpty());
}

TEST_F(SshTest, AFailureOfTheToolIsTold) {
  StartRemote({"env.GQ_STANDIN_VART=fail"});
  const gq::v1::StepResult run = CompileAndRun();
  EXPECT_EQ(run.failure().reason(), "BOARD_FAILED");
  EXPECT_THAT(run.failure().message(), HasSubstr("no partition could be created"));
  EXPECT_TRUE(LockIsFree());
}

TEST_F(SshTest, ACancelledRunFreesTheBoard) {
  StartRemote({"env.GQ_STANDIN_VART=hang"});
  server_.agents.Add(Compile("compile"));
  server_.agents.Add(Run("run", Result("compile")));
  ASSERT_TRUE(server_.agents.WaitFor("run", [](const FakeAgentService::State& state) {
    return state.log.find("hanging") != std::string::npos;
  }));
  EXPECT_FALSE(LockIsFree());
  server_.agents.Cancel("run");
  EXPECT_EQ(Result("run").state(), gq::v1::ATTEMPT_STATE_CANCELLED);
  for (int i = 0; i < 100 && !LockIsFree(); ++i) ::usleep(100'000);
  EXPECT_TRUE(LockIsFree());
}

TEST_F(SshTest, AnUnknownHostKeyIsRefused) {
  std::ofstream(folder_.path() / "ssh/known_hosts") << "";
  StartRemote();
  server_.agents.Add(Compile("a"));
  (void)Result("a");
  EXPECT_THAT(Board().absent(), Contains(HasSubstr("cannot be reached")));
}

TEST(VartFilesTest, ReadsTheTimeOnly) {
  EXPECT_EQ(ParseVartTime("Average inference time: 5.23 ms/inference (dp_size=1)"), 5.23);
  EXPECT_EQ(ParseVartTime("Average throughput: 93.50 FPS"), std::nullopt);
  EXPECT_EQ(ParseVartTime("ms/inference"), std::nullopt);
}

TEST(VartFilesTest, OutputsMustHaveTheirSize) {
  tests::TemporaryFolder folder;
  const runtime::Tensor input = runtime::Tensor::Of<float>({2}, std::vector<float>{1, 2});
  ASSERT_TRUE(WriteVartFiles(folder.path(), "m", {"x"}, {input}).ok());
  const fs::path outputs = folder.path() / "results/outputs";
  const std::vector<runtime::TensorInfo> expected = {{"y", onnx::TensorProto::FLOAT, {2}}};
  EXPECT_THAT(std::string(ReadVartOutputs(folder.path(), expected).status().message()),
              HasSubstr("no file for output y"));
  std::ofstream(outputs / "infer_out0-float32_2_y.bin") << "1234";
  EXPECT_THAT(std::string(ReadVartOutputs(folder.path(), expected).status().message()),
              HasSubstr("4 bytes, expected 8"));
  // 0x3f80 and 0xc000 are 1 and -2 in bfloat16.
  fs::remove(outputs / "infer_out0-float32_2_y.bin");
  std::ofstream(outputs / "infer_out0-bf16_2_y.bin") << std::string("\x80\x3f\x00\xc0", 4);
  const auto read = ReadVartOutputs(folder.path(), expected);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT((*read)[0].As<float>(), ElementsAre(1.0F, -2.0F));
}

}  // namespace
}  // namespace gq::agent
