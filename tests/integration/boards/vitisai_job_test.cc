// A whole job over two hosts: compiled where the vendor's compiler is, run where the board is. Both
// are stand-ins (tests/board_agent/standin).
#include "gmock/gmock.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class VitisaiJobTest : public LabTest {
 protected:
  void SetUp() override {
    for (const auto& entry : fs::directory_iterator("build/deps/onnxruntime/lib")) {
      if (entry.path().filename().string().starts_with("libonnxruntime.so")) {
        runtime_ = fs::absolute(entry.path()).string();
      }
    }
    if (runtime_.empty()) GTEST_SKIP() << "there is no ONNX Runtime in build/deps";
  }

  void StartVitisai(const std::string& board, const std::string& behaviour,
                    const std::vector<std::string>& options) {
    std::vector<std::string> more = {"--backend", "vitisai"};
    std::vector<std::string> all = {"env.GQ_STANDIN=" + behaviour,
                                    "env.GQ_STANDIN_REAL=" + runtime_,
                                    "env.GQ_ONNXRUNTIME=" + runtime_};
    all.insert(all.end(), options.begin(), options.end());
    for (const std::string& option : all) more.insert(more.end(), {"--board-option", option});
    StartAgent(board, "ve2-xc2ve3858", more);
  }
  void StartCompiler(const std::string& behaviour) {
    StartVitisai("compiler", behaviour,
                 {"npu=no", "onnxruntime=" GQ_STANDIN_DIR "/libgq_standin_onnxruntime.so"});
  }
  void StartBoard() {
    StartVitisai("bench", "", {"npu=yes", "run=vart", "vart=" GQ_STANDIN_DIR "/ml_vart"});
  }

  std::string runtime_;
};

TEST_F(VitisaiJobTest, CompilesOnOneHostAndRunsOnAnother) {
  StartServer(1);
  StartCompiler("no-device");
  StartBoard();
  ASSERT_EQ(Gq("run --model net.onnxtxt --device ve2 --stage exec --yes --target-performance "
               "'latency_p50<60s' --target-performance 'offload>=99%'"),
            0)
      << out_ << err_;
  // ml_vart gives a mean only, so a goal on p50 can neither be met nor missed.
  EXPECT_THAT(out_, HasSubstr("Goal latency_p50<60s not judged: the board's tool tells a mean"));
  EXPECT_THAT(out_, HasSubstr("Goal offload>=99% met: 100"));
  EXPECT_THAT(out_, HasSubstr("latency_p50<60s  not judged: "));
  const json report = Report();
  EXPECT_EQ(report["compile"]["backend"], "vitisai");
  EXPECT_EQ(report["board_run"]["board"], "bench");
  EXPECT_EQ(report["board_run"]["simulated"], false);
  EXPECT_EQ(report["board_run"]["on_npu"], true);
  EXPECT_GT(report["board_run"]["speedup"], 0.0);
  // A board that runs only what was compiled for it can be compared only with a compiled float
  // model.
  EXPECT_EQ(report["compile"]["float_model"]["class"], "PURE_FLOAT");
  EXPECT_TRUE(report["compile"]["float_model"]["offload"].contains("gops_percent"));
}

TEST_F(VitisaiJobTest, ErrorLinesFailTheJobAndSayWhy) {
  StartServer(1);
  StartCompiler("error-lines");
  EXPECT_EQ(Gq("run --model net.onnxtxt --device ve2 --yes"), 5) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("[aiecompiler 77-753] no buffer (COMPILE_FAILED)"));
}

TEST_F(VitisaiJobTest, ASilentFallbackIsReportedAndNotRunAsAsked) {
  StartServer(1);
  StartCompiler("fallback");
  StartBoard();
  EXPECT_EQ(Gq("run --model net.onnxtxt --device ve2 --stage exec --exec-if full-offload --yes"), 0)
      << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("nothing runs on the NPU"));
  const json report = Report();
  EXPECT_EQ(report["compile"]["partitions"]["npu"], 0);
  EXPECT_THAT(report["steps"].dump(), HasSubstr("offload 0 % is below 100 %"));
  // Nothing will be compared, so nothing more is compiled.
  EXPECT_FALSE(report["compile"].contains("float_model"));
}

}  // namespace
}  // namespace gq
