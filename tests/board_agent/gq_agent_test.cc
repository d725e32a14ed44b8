// The real program against a server in the test.
#include "onnx/defs/parser.h"
#include "tests/board_agent/agent_fixture.h"

namespace gq::agent {
namespace {

using rpc::FakeAgentService;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using State = FakeAgentService::State;

TEST_F(GqAgentTest, CompilesOnASimulatedBoardAndSaysSo) {
  const State state = Done(CompileLease("a"));
  const gq::v1::StepResult result = state.results[0];
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << result.failure().message() << state.log;
  const auto report = nlohmann::json::parse(result.report_json());
  EXPECT_EQ(report["simulated"], true);
  EXPECT_EQ(report["backend"], "sim");
  EXPECT_EQ(report["class"], "PURE_FLOAT");
  EXPECT_EQ(report["partitions"]["npu"], 1);
  EXPECT_EQ(report["partitions"]["cpu"], 0);
  EXPECT_EQ(report["offload"]["operators_offloaded"], 2);
  EXPECT_EQ(report["offload"]["gops_percent"], 100.0);
  EXPECT_EQ(report["offload"]["goal"], "full");
  std::vector<std::string> paths;
  for (const gq::v1::Artifact& artifact : result.artifacts()) {
    paths.push_back(artifact.path());
    EXPECT_FALSE(server_.blobs.Get(artifact.digest().sha256()).empty()) << artifact.path();
  }
  for (const char* path :
       {"vitisai_config.json", "compile/probe/probe.rai", "compile/probe/AIECompiler.log",
        "compile/probe/final-vaiml-pass-summary.txt",
        "compile/probe/aie_unsupported_original_ops_with_reasons.json",
        "compile/probe/vaiml_par_0/0/flexmlrt-hsi.json"}) {
    EXPECT_THAT(paths, Contains(path));
  }
  EXPECT_THAT(state.log, HasSubstr("Banner [4/4] Compile\n"));
  EXPECT_THAT(state.log, HasSubstr("(simulated)"));
  EXPECT_THAT(state.log, HasSubstr("DONE Workflow Compile completed ("));
}

TEST_F(GqAgentTest, RegistersItsBoardsWithTheirHealth) {
  Done(CompileLease("a"));
  server_.agents.CheckedBoard();
  const gq::v1::SynchronizeRequest request = server_.agents.last_request();
  EXPECT_THAT(request.capabilities(), ElementsAre("compile:onnxruntime", "compile:sim",
                                                  "exec:ve2-sim", "exec:xnnpack-cpu"));
  ASSERT_EQ(request.boards_size(), 3);
  const gq::v1::BoardReport& board = request.boards(0);
  EXPECT_EQ(board.name(), "ve2-sim");
  EXPECT_EQ(board.device(), "ve2-sim");
  EXPECT_TRUE(board.simulated());
  EXPECT_THAT(board.schemes(), Contains("vint8"));
  EXPECT_EQ(board.health(), gq::v1::BOARD_HEALTH_GOOD) << board.health_detail();
  EXPECT_THAT(request.boards(1).schemes(), ElementsAre("W8-A8", "W8-A16"));
}

TEST_F(GqAgentTest, ADeviceWithoutACompilerLeavesTheStepOut) {
  gq::v1::Lease lease = CompileLease("a");
  lease.set_board("ethos-u-sim");
  const State state = Done(lease);
  EXPECT_THAT(state.results[0].skip_reason(), HasSubstr("no compiler for ethos-u-sim"));
  EXPECT_THAT(state.log, HasSubstr("DONE Workflow Compile not run: "));
}

TEST_F(GqAgentTest, OnACpuBoardOnnxRuntimeOptimizesTheModel) {
  gq::v1::Lease lease = CompileLease("a");
  lease.set_board("xnnpack-cpu");
  const State state = Done(lease);
  const gq::v1::StepResult result = state.results[0];
  ASSERT_EQ(result.state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << result.failure().message() << state.log;
  const auto report = nlohmann::json::parse(result.report_json());
  EXPECT_EQ(report["simulated"], false);
  EXPECT_EQ(report["backend"], "onnxruntime");
  EXPECT_TRUE(report["facts"].contains("onnxruntime_version"));
  ASSERT_EQ(result.artifacts_size(), 1);
  EXPECT_EQ(result.artifacts(0).path(), "compile/probe/probe_optimized.onnx");
}

// 2 * 4 + 2 operations before the operator that no NPU takes, 2 in it, 2 after it: the last
// subgraph lies below the threshold of 20 % until that is taken away.
TEST_F(GqAgentTest, OtherOptionsAreTriedWhenWorkStaysOnTheCpu) {
  onnx::ModelProto proto;
  onnx::OnnxParser parser(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,2] x) => (float[1,2] y)"
      "<float[2,2] w = {1, 2, 3, 4}> { a = MatMul(x, w) b = Relu(a) t = Hardmax(b) y = Relu(t) }");
  ASSERT_TRUE(parser.Parse(proto).IsOK());
  const State state = Done(CompileLease("a", graph::Model::FromProto(std::move(proto)).value()));
  ASSERT_EQ(state.results[0].state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << state.results[0].failure().message() << state.log;
  const auto report = nlohmann::json::parse(state.results[0].report_json());
  EXPECT_EQ(report["options"]["threshold_gops_percent"], 0.0);
  EXPECT_NEAR(report["offload"]["gops_percent"].get<double>(), 100.0 * 12 / 14, 0.001);
  EXPECT_EQ(report["partitions"]["npu"], 2);
  EXPECT_THAT(state.iterations, ElementsAre(1));
  EXPECT_THAT(state.log, HasSubstr("Round with threshold_gops_percent=0 kept"));
}

TEST_F(GqAgentTest, RunsOnASimulatedBoardWithAStatedLatency) {
  gq::v1::Lease lease = CompileLease("a");
  lease.set_kind(gq::v1::STEP_KIND_BOARD_RUN);
  const State state = Done(lease);
  ASSERT_EQ(state.results[0].state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << state.results[0].failure().message() << state.log;
  const auto report = nlohmann::json::parse(state.results[0].report_json());
  EXPECT_EQ(report["simulated"], true);
  EXPECT_GT(report["latency_ms"]["p50"], 0.0);
  EXPECT_EQ(report["conditions"]["model"], "roofline, no hardware");
  EXPECT_EQ(report["outputs"][0]["name"], "y");
  EXPECT_EQ(report["outputs"][0]["cosine"], 1.0);
}

TEST_F(GqAgentTest, MeasuresOnACpuBoard) {
  gq::v1::Lease lease = CompileLease("a");
  lease.set_kind(gq::v1::STEP_KIND_BOARD_RUN);
  lease.set_board("xnnpack-cpu");
  const State state = Done(lease);
  ASSERT_EQ(state.results[0].state(), gq::v1::ATTEMPT_STATE_SUCCEEDED)
      << state.results[0].failure().message() << state.log;
  const auto report = nlohmann::json::parse(state.results[0].report_json());
  EXPECT_EQ(report["simulated"], false);
  EXPECT_GT(report["samples_ms"].size(), 0U);
  EXPECT_GE(report["latency_ms"]["p99"], report["latency_ms"]["p50"]);
}

TEST_F(GqAgentTest, ABoardThatComputesWrongIsNoticed) {
  gq::v1::Lease lease = CompileLease("a");
  lease.set_kind(gq::v1::STEP_KIND_BOARD_RUN);
  EXPECT_EQ(Done(lease, {"--sim-fault", "wrong-output"}).results[0].failure().reason(),
            "BOARD_FAILED");
}

TEST_F(GqAgentTest, ABadCompilerOptionFailsTheStepForTheUser) {
  gq::v1::Lease lease = CompileLease("a");
  lease.mutable_spec()->add_compiler_option("tp_size=7");
  lease.mutable_spec()->add_compiler_option("dp_size=7");
  const gq::v1::StepResult result = Done(lease).results[0];
  EXPECT_EQ(result.state(), gq::v1::ATTEMPT_STATE_FAILED);
  EXPECT_EQ(result.failure().reason(), "INVALID_FLAG");
  EXPECT_THAT(result.failure().message(), HasSubstr("196 columns"));
}

TEST_F(GqAgentTest, ErrorsInTheLogFailTheStepWhateverTheStatusSays) {
  EXPECT_EQ(Done(CompileLease("a"), {"--sim-fault", "error-lines"}).results[0].failure().reason(),
            "COMPILE_FAILED");
}

TEST_F(GqAgentTest, AFallbackInSilenceIsNoticed) {
  EXPECT_THAT(
      Done(CompileLease("a"), {"--sim-fault", "silent-fallback"}).results[0].failure().message(),
      HasSubstr("no probe.rai"));
}

TEST_F(GqAgentTest, ACrashIsALoss) {
  const gq::v1::StepResult result = Done(CompileLease("a"), {"--sim-fault", "crash"}).results[0];
  EXPECT_EQ(result.state(), gq::v1::ATTEMPT_STATE_LOST);
  EXPECT_THAT(result.failure().message(), HasSubstr("SIGKILL"));
}

TEST_F(GqAgentTest, AHangCanBeCancelled) {
  server_.agents.Add(CompileLease("a"));
  Start({"--sim-fault", "hang"});
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  server_.agents.Cancel("a");
  ASSERT_TRUE(server_.agents.WaitForResult("a"));
  EXPECT_EQ(server_.agents.Get("a").results[0].state(), gq::v1::ATTEMPT_STATE_CANCELLED);
}

TEST_F(GqAgentTest, ATerminationLetsTheWorkEnd) {
  server_.agents.Add(CompileLease("a"));
  Start({"--sim-fault", "slow"});
  ASSERT_TRUE(server_.agents.WaitFor("a", [](const State& state) { return state.reported; }));
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_EQ(server_.agents.Get("a").results[0].state(), gq::v1::ATTEMPT_STATE_SUCCEEDED);
}

TEST_F(GqAgentTest, AnUnknownBoardIsRefusedAtTheStart) {
  StartWith({"--board", "x", "--device", "toaster"});
  EXPECT_EQ(WaitForExit(), 2);
}

}  // namespace
}  // namespace gq::agent
