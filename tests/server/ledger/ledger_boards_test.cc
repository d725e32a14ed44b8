// Conformance of a ledger: boards, reservations, blobs.
#include "common/base/status.h"
#include "tests/server/ledger/ledger_fixture.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;

constexpr absl::Duration kOnline = absl::Seconds(90);

class LedgerBoards : public LedgerTest {
 protected:
  absl::StatusOr<ContactOutcome> Register(
      const std::string& agent, const std::string& session, const std::string& board,
      gq::v1::BoardHealth health = gq::v1::BOARD_HEALTH_UNSPECIFIED) {
    AgentContact contact;
    contact.agent = agent;
    contact.session = session;
    contact.capabilities = {"compile:sim", "exec:ve2-sim"};
    contact.ttl = absl::Seconds(60);
    gq::v1::BoardReport& report = contact.boards.emplace_back();
    report.set_name(board);
    report.set_device("ve2-sim");
    report.set_backend("sim");
    report.set_health(health);
    return ledger_->RecordContact(contact);
  }
  BoardRecord Board(const std::string& name) {
    const auto boards = ledger_->ListBoards(kOnline).value();
    for (const BoardRecord& board : boards) {
      if (board.board.name() == name) return board;
    }
    ADD_FAILURE() << "no board " << name;
    return {};
  }
  absl::StatusOr<LeaseRecord> ClaimOn(const std::string& job_id, const std::string& board) {
    return ledger_->ClaimStep({.job_id = job_id,
                               .agent = "agent-1",
                               .session = "s1",
                               .board = board,
                               .exclusive = true,
                               .ttl = absl::Seconds(60)});
  }
};

TEST_P(LedgerBoards, RegisteredBoardIsUnknownUntilItsFirstCheck) {
  EXPECT_TRUE(Register("agent-1", "s1", "b1")->boards_changed);
  EXPECT_FALSE(Register("agent-1", "s1", "b1")->boards_changed);
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_UNKNOWN);
  EXPECT_TRUE(Board("b1").online);
  EXPECT_TRUE(Register("agent-1", "s1", "b1", gq::v1::BOARD_HEALTH_GOOD)->boards_changed);
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_GOOD);
  EXPECT_THAT(Board("b1").board.capabilities(), ElementsAre("compile:sim", "exec:ve2-sim"));
}

TEST_P(LedgerBoards, HealthThatOnlyANewerAgentKnowsIsUnknown) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1", static_cast<gq::v1::BoardHealth>(99)).ok());
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_UNKNOWN);
}

TEST_P(LedgerBoards, BoardOfASilentAgentIsOffline) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  clock_.Advance(absl::Seconds(91));
  EXPECT_FALSE(Board("b1").online);
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  ASSERT_TRUE(ledger_->EndAgent("agent-1", {}).ok());
  EXPECT_FALSE(Board("b1").online) << "its end is known";
}

TEST_P(LedgerBoards, BoardHasOneAgentAtATime) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  EXPECT_EQ(GetReason(Register("agent-2", "t1", "b1").status()), Reason::kAlreadyExists);
  ASSERT_TRUE(ledger_->EndAgent("agent-1", {}).ok());
  EXPECT_TRUE(Register("agent-2", "t1", "b1").ok());
  EXPECT_EQ(Board("b1").board.agent(), "agent-2");
}

TEST_P(LedgerBoards, BoardRunsOneLeaseAtATime) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  const std::string first = Submit(TwoSteps()).id();
  const std::string second = Submit(TwoSteps()).id();
  const LeaseRecord lease = *ClaimOn(first, "b1");
  EXPECT_EQ(GetReason(ClaimOn(second, "b1").status()), Reason::kBoardBusy);
  EXPECT_EQ(Get(second).state(), gq::v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Board("b1").board.job_id(), first);
  EXPECT_EQ(GetReason(ledger_->RemoveBoard(kAlice, "b1")), Reason::kBoardBusy);
  ASSERT_TRUE(ledger_->CompleteAttempt(lease.key, Succeeded()).ok());
  EXPECT_TRUE(ClaimOn(second, "b1").ok());
}

TEST_P(LedgerBoards, ThreeFailuresInARowAskForAHealthCheck) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  const auto run = [&](const gq::v1::StepResult& result) {
    const std::string id = Submit(TwoSteps()).id();
    ASSERT_TRUE(ledger_->CompleteAttempt(ClaimOn(id, "b1")->key, result).ok());
  };
  const auto broken = Ended(gq::v1::ATTEMPT_STATE_FAILED, "BOARD_FAILED");
  run(broken);
  run(broken);
  run(Succeeded());
  run(broken);
  run(broken);
  EXPECT_TRUE(ledger_->TakeHealthChecks("agent-1")->empty()) << "not three in a row";
  run(broken);
  EXPECT_EQ(Board("b1").board.consecutive_failures(), 3);
  EXPECT_THAT(*ledger_->TakeHealthChecks("agent-1"), ElementsAre("b1"));
  EXPECT_TRUE(ledger_->TakeHealthChecks("agent-1")->empty());
  // A user's mistake is not the board's.
  run(Ended(gq::v1::ATTEMPT_STATE_FAILED, "MODEL_INVALID"));
  EXPECT_EQ(Board("b1").board.consecutive_failures(), 3);
}

TEST_P(LedgerBoards, ReservationEndsByItself) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  const absl::Time until = clock_.Now() + absl::Hours(1);
  ASSERT_TRUE(ledger_->ReserveBoard(kAlice, "b1", until, "demo").ok());
  EXPECT_EQ(Board("b1").board.reserved_by(), "alice");
  const Actor bob{"bob", "Test"};
  EXPECT_EQ(GetReason(ledger_->ReserveBoard(bob, "b1", until, "")), Reason::kBoardReserved);
  EXPECT_EQ(GetReason(ledger_->ReleaseBoard(bob, "b1", false)), Reason::kPermissionDenied);
  ASSERT_TRUE(ledger_->ReserveBoard(kAlice, "b1", until + absl::Hours(1), "").ok()) << "extended";
  clock_.Advance(absl::Minutes(90));
  EXPECT_EQ(Board("b1").board.reserved_by(), "alice");
  clock_.Advance(absl::Minutes(31));
  EXPECT_EQ(Board("b1").board.reserved_by(), "");
  EXPECT_TRUE(ledger_->ReserveBoard(bob, "b1", clock_.Now() + absl::Hours(1), "").ok());
  EXPECT_TRUE(ledger_->ReleaseBoard(kAlice, "b1", /*force=*/true).ok());
  EXPECT_EQ(Board("b1").board.reserved_by(), "");
  EXPECT_EQ(GetReason(ledger_->ReserveBoard(bob, "b9", until, "")), Reason::kNotFound);
}

TEST_P(LedgerBoards, HealthSetByHandHoldsUntilItIsHandedBack) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1", gq::v1::BOARD_HEALTH_GOOD).ok());
  ASSERT_TRUE(
      ledger_->SetBoardHealth(kAlice, "b1", gq::v1::BOARD_HEALTH_MAINTENANCE, "new fan").ok());
  ASSERT_TRUE(Register("agent-1", "s1", "b1", gq::v1::BOARD_HEALTH_GOOD).ok());
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_MAINTENANCE);
  EXPECT_EQ(Board("b1").board.health_detail(), "new fan");
  ASSERT_TRUE(ledger_->SetBoardHealth(kAlice, "b1", gq::v1::BOARD_HEALTH_UNKNOWN, "").ok());
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_GOOD);
  EXPECT_THAT(*ledger_->TakeHealthChecks("agent-1"), ElementsAre("b1"));
}

TEST_P(LedgerBoards, AgentThatKeepsComingAndGoingLoops) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Register("agent-1", "s" + std::to_string(i), "b1", gq::v1::BOARD_HEALTH_GOOD).ok());
  }
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_LOOPING);
  clock_.Advance(absl::Minutes(11));
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_GOOD);
}

TEST_P(LedgerBoards, RestartsOfTheServerAreNoFaultOfItsOwnAgents) {
  ASSERT_TRUE(ledger_->RegisterLocalAgent("agent-1").ok());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Register("agent-1", "s" + std::to_string(i), "b1", gq::v1::BOARD_HEALTH_GOOD).ok());
    ASSERT_TRUE(ledger_->RecoverLeases(absl::Seconds(150)).ok());
  }
  EXPECT_EQ(Board("b1").board.health(), gq::v1::BOARD_HEALTH_GOOD);
}

TEST_P(LedgerBoards, DrainGoesByPatternAndSurvivesAReconnect) {
  ASSERT_TRUE(Register("agent-1", "s1", "ve2-a").ok());
  ASSERT_TRUE(Register("agent-1", "s1", "ve2-b").ok());
  ASSERT_TRUE(Register("agent-1", "s1", "xnn").ok());
  EXPECT_THAT(*ledger_->DrainBoards(kAlice, "ve2-*", true), ElementsAre("ve2-a", "ve2-b"));
  ASSERT_TRUE(Register("agent-1", "s2", "ve2-a").ok());
  Reopen();
  EXPECT_TRUE(Board("ve2-a").draining);
  EXPECT_FALSE(Board("xnn").draining);
  EXPECT_THAT(*ledger_->DrainBoards(kAlice, "*a", false), ElementsAre("ve2-a"));
  EXPECT_EQ(GetReason(ledger_->DrainBoards(kAlice, "q*", true).status()), Reason::kNotFound);
}

TEST_P(LedgerBoards, RemovedBoardComesBackWhenItRegistersAgain) {
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  ASSERT_TRUE(ledger_->RemoveBoard(kAlice, "b1").ok());
  EXPECT_TRUE(ledger_->ListBoards(kOnline)->empty());
  EXPECT_EQ(GetReason(ledger_->RemoveBoard(kAlice, "b1")), Reason::kNotFound);
  ASSERT_TRUE(Register("agent-1", "s1", "b1").ok());
  EXPECT_EQ(ledger_->ListBoards(kOnline)->size(), 1u);
}

TEST_P(LedgerBoards, LocalAgentsThatAreGoneTakeTheirBoardsWithThem) {
  ASSERT_TRUE(ledger_->RegisterLocalAgent("sim").ok());
  ASSERT_TRUE(Register("sim", "s1", "b1").ok());
  ASSERT_TRUE(Register("far", "f1", "b2").ok());
  ASSERT_TRUE(ledger_->KeepLocalAgents({}).ok());
  ASSERT_EQ(ledger_->ListBoards(kOnline)->size(), 1u);
  EXPECT_EQ(ledger_->ListAgents()->size(), 1u);
}

TEST_P(LedgerBoards, BlobIsMissingForThoseWhoDidNotUploadIt) {
  ASSERT_TRUE(ledger_->RecordBlob("alice", DigestOf('a', 7)).ok());
  const std::vector<gq::v1::Digest> both = {DigestOf('a', 7), DigestOf('b', 7)};
  EXPECT_EQ(ledger_->FindMissingBlobs("alice", both)->size(), 1u);
  EXPECT_EQ(ledger_->FindMissingBlobs("bob", both)->size(), 2u);
  EXPECT_FALSE(*ledger_->MayReadBlob({"bob"}, both[0]));
  EXPECT_TRUE(*ledger_->MayReadBlob({.principal = "root", .sees_all = true}, both[0]));
  EXPECT_EQ(ledger_->FindMissingBlobs("alice", {{DigestOf('a', 8)}})->size(), 1u) << "other size";
  EXPECT_EQ(*ledger_->BlobBytes(), 7);
}

TEST_P(LedgerBoards, BlobThatWasAskedForIsNotForgotten) {
  ASSERT_TRUE(ledger_->RecordBlob("alice", DigestOf('a', 7)).ok());
  clock_.Advance(absl::Hours(2));
  ASSERT_EQ(ledger_->ListUnusedBlobs(absl::Hours(1))->size(), 1u);
  ASSERT_TRUE(ledger_->FindMissingBlobs("alice", {{DigestOf('a', 7)}})->empty());
  EXPECT_FALSE(*ledger_->ForgetBlob(DigestOf('a', 7), absl::Hours(1)));
  clock_.Advance(absl::Hours(2));
  EXPECT_TRUE(*ledger_->ForgetBlob(DigestOf('a', 7), absl::Hours(1)));
  EXPECT_EQ(ledger_->FindMissingBlobs("alice", {{DigestOf('a', 7)}})->size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, LedgerBoards, testing::Values(&MakeSqliteLedger));

}  // namespace
}  // namespace gq::server
