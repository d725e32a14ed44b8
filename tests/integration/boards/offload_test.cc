// `--offload-goal full`: options first, then the quantization, each round a row of the ledger.
#include "gmock/gmock.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr char kNamed[] = R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,8,8] x) => (float[1,2,8,8] y)
<float[2,2,1,1] w1 = {0.5, -0.25, 0.125, 0.75}, float[2] b1 = {0.1, -0.1},
 float[2,2,1,1] w2 = {1.0, 0.5, -0.5, 0.25}, float[2] b2 = {0.0, 0.2}>
{
  [conv1] a = Conv(x, w1, b1)
  [relu1] r = Relu(a)
  [conv2] y = Conv(r, w2, b2)
}
)";

class OffloadTest : public LabTest {
 protected:
  // A layer in float that the options keep from becoming BF16 stays on the CPU.
  int Run(const std::string& more) {
    std::ofstream(folder_ / "named.onnxtxt") << kNamed;
    StartServer(1);
    StartSim("bench");
    return Gq(
        "run --model named.onnxtxt --device ve2 --exclude conv2 --no-color "
        "--compiler-option enable_f32_to_bf16_conversion=false " +
        more);
  }
};

TEST_F(OffloadTest, TheQuantizationMayChangeForAFullOffload) {
  EXPECT_EQ(Run("--offload-goal full --yes"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("Quantizing again with conv2 as integers"));
  EXPECT_THAT(out_, HasSubstr("Round with quantize conv2 kept"));
  const json report = Report();
  EXPECT_EQ(report["compile"]["offload"]["gops_percent"], 100.0);
  EXPECT_EQ(report["compile"]["class"], "PURE_VINT8");
  ASSERT_EQ(Gq("ledger @last"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("quantize conv2"));
}

TEST_F(OffloadTest, WithoutIncludingItTheGoalIsMissed) {
  EXPECT_EQ(Run("--offload-goal full --compile-rounds 1 --yes"), 10) << out_ << err_;
  EXPECT_THAT(out_, Not(HasSubstr("Quantizing again")));
}

TEST_F(OffloadTest, TheBestGoalLeavesTheQuantizationAlone) {
  EXPECT_EQ(Run("--yes"), 0) << out_ << err_;
  EXPECT_THAT(out_, Not(HasSubstr("Quantizing again")));
}

// Size and precision need neither compiler nor board; what needs them is refused at submit.
TEST_F(OffloadTest, GoalsOnTheModelAreJudgedWithoutACompile) {
  StartServer(1);
  ASSERT_TRUE(Eventually([&] { return Gq("jobs list") == 0; }));
  const std::string run = "run --model net.onnxtxt --stage quantize --no-color ";
  EXPECT_EQ(Gq(run + "--target-performance 'bf16_share<=10%'"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("bf16_share<=10%  met: 0"));
  EXPECT_EQ(Gq(run + "--target-performance 'model_size<10B'"), 10) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("Verdict: goal not met: model_size<10B is missed"));
  EXPECT_EQ(Report()["job"]["verdict"], "GOAL_NOT_MET");
  EXPECT_EQ(Gq(run + "--target-performance 'offload>=98%'"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("performance goal 'offload>=98%' needs a compile (TARGET_INVALID)"));
  EXPECT_EQ(Gq(run + "--target-performance 'latency_p50<5ms'"), 2) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("needs a run on a board"));
}

}  // namespace
}  // namespace gq
