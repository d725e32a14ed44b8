// Every misbehaviour of a board ends in the right outcome, through a real server: retried, moved to
// another board, quarantined, reported; and the board is free afterwards.
#include "gmock/gmock.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

using testing::HasSubstr;
using testing::Not;

class MisbehaviourTest : public LabTest {
 protected:
  // A run on the board, followed to its end.
  int Run(const std::string& more = "") {
    return Gq("board-run net.onnxtxt --device ve2 --no-color " + more);
  }
};

TEST_F(MisbehaviourTest, ASlowBoardIsWaitedFor) {
  StartServer();
  StartSim("slow", "slow");
  EXPECT_EQ(Run(), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("(simulated)"));
  EXPECT_TRUE(Eventually([&] { return IsFree("slow"); }));
}

TEST_F(MisbehaviourTest, AHangEndsWithItsTime) {
  StartServer();
  StartSim("hangs", "hang");
  EXPECT_EQ(Run("--run-timeout 1s"), 9) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("TIMEOUT"));
  EXPECT_TRUE(Eventually([&] { return IsFree("hangs"); }));
}

TEST_F(MisbehaviourTest, AHangCanBeCancelled) {
  StartServer();
  StartSim("hangs", "hang");
  ASSERT_EQ(Run("--detach"), 0) << err_;
  ASSERT_TRUE(Eventually([&] { return !IsFree("hangs"); }));
  EXPECT_EQ(Gq("jobs cancel @last"), 0) << err_;
  EXPECT_EQ(Gq("jobs wait @last"), 8) << err_;
  EXPECT_TRUE(Eventually([&] { return IsFree("hangs"); }));
}

TEST_F(MisbehaviourTest, ABoardThatCrashesThreeTimesIsQuarantined) {
  StartServer();
  StartSim("breaks", "crash");
  EXPECT_EQ(Run("--board breaks"), 5) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("(attempt 3 of 3"));
  EXPECT_THAT(err_, HasSubstr("ATTEMPTS_EXHAUSTED"));
  EXPECT_TRUE(Eventually([&] { return Board("breaks").value("health", "").ends_with("BAD"); }))
      << Board("breaks");
  EXPECT_TRUE(IsFree("breaks"));
  // Nothing is handed to it any more, and the job says why it waits.
  ASSERT_EQ(Run("--board breaks --detach"), 0) << err_;
  EXPECT_TRUE(Eventually([&] {
    Gq("jobs show @last");
    return out_.find("in health bad") != std::string::npos;
  })) << out_;
}

TEST_F(MisbehaviourTest, WorkMovesToAnotherBoard) {
  StartServer();
  StartSim("breaks", "crash");
  StartSim("works");
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run("--detach"), 0) << err_;
  EXPECT_TRUE(Eventually([&] {
    Gq("jobs list --json --state succeeded");
    return std::count(out_.begin(), out_.end(), '\n') == 4;
  })) << out_;
  EXPECT_TRUE(IsFree("breaks"));
  EXPECT_TRUE(IsFree("works"));
}

TEST_F(MisbehaviourTest, AFlakyBoardIsTriedAgain) {
  StartServer();
  StartSim("flaky", "flaky");
  EXPECT_EQ(Run(), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("(attempt 2 of 3: WORKER_LOST)"));
  EXPECT_THAT(Board("flaky").value("health", ""), HasSubstr("GOOD"));
  EXPECT_TRUE(IsFree("flaky"));
}

TEST_F(MisbehaviourTest, AWrongResultCountsAgainstTheBoard) {
  StartServer();
  StartSim("wrong", "wrong-output");
  EXPECT_EQ(Run("--board wrong"), 5) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("BOARD_FAILED"));
  EXPECT_THAT(err_, HasSubstr("differs from the CPU reference"));
  EXPECT_TRUE(Eventually([&] { return Board("wrong").value("health", "").ends_with("BAD"); }))
      << Board("wrong");
  StartSim("right");
  EXPECT_EQ(Run(), 0) << out_ << err_;
  EXPECT_TRUE(IsFree("wrong"));
}

TEST_F(MisbehaviourTest, ASilentFallbackFailsTheJobAndNotTheBoard) {
  StartServer();
  StartSim("silent", "silent-fallback");
  EXPECT_EQ(Gq("compile net.onnxtxt --device ve2"), 5) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("the compiler left no net.rai (COMPILE_FAILED)"));
  EXPECT_THAT(out_, Not(HasSubstr("attempt 2")));
  EXPECT_THAT(Board("silent").value("health", ""), HasSubstr("GOOD"));
}

TEST_F(MisbehaviourTest, ErrorLinesFailTheJobAndNotTheBoard) {
  StartServer();
  StartSim("errors", "error-lines");
  EXPECT_EQ(Gq("compile net.onnxtxt --device ve2"), 5) << out_ << err_;
  EXPECT_THAT(err_, HasSubstr("simulated failure"));
}

TEST_F(MisbehaviourTest, ABoardThatFailsItsCheckGetsNoWork) {
  StartServer();
  StartSim("works");
  agents_["sick"] = Process({Program("gq-agent"), "serve", "--server", Address(), "--name", "sick",
                             "--state-dir", (folder_ / "sick").string(), "--board", "sick",
                             "--device", "ve2-xc2ve3858", "--sim-fault", "unhealthy"},
                            (folder_ / "sick.log").string());
  ASSERT_TRUE(Eventually([&] { return Board("sick").value("health", "").ends_with("BAD"); }));
  ASSERT_EQ(Run("--json"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("works"));
}

}  // namespace
}  // namespace gq
