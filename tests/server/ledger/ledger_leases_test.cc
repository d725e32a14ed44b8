// Conformance of a ledger: claims, fencing, tries, expiry, recovery.
#include "common/base/status.h"
#include "tests/server/ledger/ledger_fixture.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;

class LedgerLeases : public LedgerTest {
 protected:
  LedgerLeases() { Contact("worker-1", "s1"); }

  gq::v1::Failure Gone() {
    gq::v1::Failure failure;
    failure.set_reason("WORKER_LOST");
    failure.set_message("gone");
    return failure;
  }
};

TEST_P(LedgerLeases, AStepIsHandedOutOnce) {
  const std::string id = Submit(TwoSteps()).id();
  ASSERT_EQ(ledger_->ListQueuedSteps()->size(), 1u);
  const LeaseRecord lease = *Claim(id, 0);
  EXPECT_EQ(lease.attempt, 1);
  EXPECT_EQ(lease.key.generation, 1);
  EXPECT_EQ(lease.expires, clock_.Now() + absl::Seconds(60));
  EXPECT_EQ(GetReason(Claim(id, 0).status()), Reason::kBoardBusy);
  EXPECT_TRUE(ledger_->ListQueuedSteps()->empty());
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_RUNNING);
}

TEST_P(LedgerLeases, AStepThatWaitsForAnEarlierOneCannotBeClaimed) {
  const std::string id = Submit(TwoSteps()).id();
  EXPECT_EQ(GetReason(Claim(id, 1).status()), Reason::kBoardBusy);
}

TEST_P(LedgerLeases, OnlyTheCurrentSessionClaims) {
  const std::string id = Submit(TwoSteps()).id();
  Contact("worker-1", "s2");
  EXPECT_EQ(GetReason(Claim(id, 0, "worker-1", "s1").status()), Reason::kLeaseLost);
  EXPECT_TRUE(Claim(id, 0, "worker-1", "s2").ok());
}

TEST_P(LedgerLeases, LeaseCarriesWhatEarlierStepsLeft) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord first = *Claim(id, 0);
  gq::v1::StepResult result = Succeeded();
  result.set_report_json(R"({"graph_optimize":{}})");
  gq::v1::Artifact* artifact = result.add_artifacts();
  artifact->set_path("model_float.onnx");
  *artifact->mutable_digest() = DigestOf('b', 10);
  EXPECT_EQ(GetReason(ledger_->CompleteAttempt(first.key, result).status()), Reason::kBlobMissing);
  ASSERT_TRUE(ledger_->RecordBlob("worker", DigestOf('b', 10)).ok());
  ASSERT_TRUE(ledger_->CompleteAttempt(first.key, result).ok());
  const LeaseRecord second = *Claim(id, 1);
  const gq::v1::Lease lease = *ledger_->LoadLease(second.key.lease_id);
  EXPECT_EQ(lease.kind(), gq::v1::STEP_KIND_EVALUATE);
  EXPECT_EQ(lease.title(), "Evaluate");
  EXPECT_EQ(lease.step_count(), 2);
  EXPECT_EQ(lease.try_number(), 1);
  EXPECT_EQ(lease.max_tries(), 3);
  ASSERT_EQ(lease.inputs_size(), 1);
  EXPECT_EQ(lease.inputs(0).path(), "model_float.onnx");
  ASSERT_EQ(lease.earlier_reports_size(), 1);
  EXPECT_EQ(lease.earlier_reports(0), R"({"graph_optimize":{}})");
  EXPECT_EQ(ledger_->ListReports(id)->at(0), R"({"graph_optimize":{}})");
  EXPECT_EQ(ledger_->ListArtifacts(id)->at(0).digest().size_bytes(), 10);
  // The owner of the job owns what it left.
  EXPECT_TRUE(*ledger_->MayReadBlob({"alice"}, DigestOf('b', 10)));
  EXPECT_FALSE(*ledger_->MayReadBlob({"bob"}, DigestOf('b', 10)));
}

TEST_P(LedgerLeases, VerdictOfAStepIsTheJobs) {
  const std::string id = Submit(TwoSteps()).id();
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(id, 0)->key, Succeeded()).ok());
  gq::v1::StepResult result = Succeeded();
  result.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(id, 1)->key, result).ok());
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(id).verdict(), gq::v1::VERDICT_GOAL_NOT_MET);
}

TEST_P(LedgerLeases, SkippedStepDoesNotEndTheJob) {
  const std::string id = Submit(TwoSteps()).id();
  gq::v1::StepResult result = Succeeded();
  result.set_skip_reason("offload 91 %");
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(id, 0)->key, result).ok());
  EXPECT_EQ(Get(id).steps(0).state(), gq::v1::STEP_STATE_SKIPPED);
  EXPECT_EQ(Get(id).steps(0).skip_reason(), "offload 91 %");
  EXPECT_EQ(Get(id).steps(1).state(), gq::v1::STEP_STATE_QUEUED);
}

TEST_P(LedgerLeases, PlannedSkipsAreLeftOutWhenTheyAreReached) {
  NewJob job = TwoSteps();
  job.steps.push_back(CpuStep(gq::v1::STEP_KIND_BOARD_RUN, "Board Run"));
  const std::string id = Submit(job).id();
  ASSERT_TRUE(ledger_->PlanSkip(id, 2, "offload 91 % is below 98 %").ok());
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(id, 0)->key, Succeeded()).ok());
  EXPECT_EQ(Get(id).steps(1).state(), gq::v1::STEP_STATE_QUEUED);
  EXPECT_EQ(Get(id).steps(2).state(), gq::v1::STEP_STATE_WAITING);
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(id, 1)->key, Succeeded()).ok());
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(id).steps(2).state(), gq::v1::STEP_STATE_SKIPPED);
  EXPECT_EQ(Get(id).steps(2).skip_reason(), "offload 91 % is below 98 %");
  EXPECT_TRUE(ledger_->ListQueuedSteps()->empty());
}

TEST_P(LedgerLeases, StepThatCannotBeHadIsGivenUpUnlessItWasTaken) {
  const std::string taken = Submit(TwoSteps()).id();
  const std::string waiting = Submit(TwoSteps()).id();
  ASSERT_TRUE(Claim(taken, 0).ok());
  EXPECT_FALSE(*ledger_->GiveUpStep(taken, 0, Gone()));
  EXPECT_TRUE(*ledger_->GiveUpStep(waiting, 0, Gone()));
  EXPECT_EQ(Get(taken).state(), gq::v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Get(waiting).state(), gq::v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get(waiting).failure().reason(), "WORKER_LOST");
}

TEST_P(LedgerLeases, DuplicateResultIsDropped) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  EXPECT_FALSE(ledger_->CompleteAttempt(lease.key, Succeeded())->duplicate);
  const int64_t last_event = Get(id).last_event();
  EXPECT_TRUE(ledger_->CompleteAttempt(lease.key, Succeeded())->duplicate);
  EXPECT_TRUE(
      ledger_->CompleteAttempt(lease.key, Ended(gq::v1::ATTEMPT_STATE_FAILED, "MODEL_INVALID"))
          ->duplicate);
  EXPECT_EQ(Get(id).last_event(), last_event);
}

TEST_P(LedgerLeases, WrongGenerationIsRefused) {
  const std::string id = Submit(TwoSteps()).id();
  LeaseKey stale = Claim(id, 0)->key;
  --stale.generation;
  EXPECT_EQ(GetReason(ledger_->CheckLease(stale).status()), Reason::kLeaseLost);
  EXPECT_EQ(GetReason(ledger_->CompleteAttempt(stale, Succeeded()).status()), Reason::kLeaseLost);
  EXPECT_EQ(GetReason(ledger_->RecordIteration(stale, {})), Reason::kLeaseLost);
  EXPECT_EQ(Contact("worker-1", "s1", {stale}).lost.size(), 1u);
}

TEST_P(LedgerLeases, ExpiredLeaseIsRefusedEverywhereAndTheStepGoesToAnother) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  clock_.Advance(absl::Seconds(89));
  EXPECT_TRUE(ledger_->ExpireLeases(absl::Seconds(30))->empty());
  clock_.Advance(absl::Seconds(2));
  ASSERT_EQ(ledger_->ExpireLeases(absl::Seconds(30))->size(), 1u);
  EXPECT_EQ(GetReason(ledger_->CompleteAttempt(lease.key, Succeeded()).status()),
            Reason::kLeaseLost);
  EXPECT_EQ(GetReason(ledger_->RecordIteration(lease.key, {})), Reason::kLeaseLost);
  Contact("worker-2", "t1");
  const LeaseRecord next = *Claim(id, 0, "worker-2", "t1");
  EXPECT_EQ(next.key.generation, 2);
  EXPECT_EQ(next.attempt, 2);
  const gq::v1::Lease loaded = *ledger_->LoadLease(next.key.lease_id);
  EXPECT_EQ(loaded.try_number(), 2);
  EXPECT_EQ(loaded.last_failure(), "WORKER_LOST");
  EXPECT_EQ(Get(id).steps(0).attempts(0).state(), gq::v1::ATTEMPT_STATE_LOST);
}

TEST_P(LedgerLeases, ReportedLeaseLivesOn) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(absl::Seconds(50));
    EXPECT_TRUE(Contact("worker-1", "s1", {lease.key}).lost.empty());
    EXPECT_TRUE(ledger_->ExpireLeases(absl::Seconds(30))->empty());
  }
  EXPECT_TRUE(ledger_->CheckLease(lease.key)->confirmed);
}

TEST_P(LedgerLeases, ThreeLossesEndTheJobAsPlatformFailure) {
  const std::string id = Submit(TwoSteps()).id();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Get(id).steps(0).state(), gq::v1::STEP_STATE_QUEUED);
    ASSERT_TRUE(Claim(id, 0).ok());
    EXPECT_EQ(ledger_->EndAgent("worker-1", Gone())->size(), 1u);
  }
  const gq::v1::Job job = Get(id);
  EXPECT_EQ(job.state(), gq::v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.failure().reason(), "ATTEMPTS_EXHAUSTED");
  EXPECT_EQ(job.failure().failure_class(), gq::v1::FAILURE_CLASS_PLATFORM);
  EXPECT_EQ(job.steps(0).attempts_size(), 3);
}

TEST_P(LedgerLeases, LossesAndFailuresOfTheToolAreCountedApart) {
  const std::string id = Submit(TwoSteps()).id();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Claim(id, 0).ok());
    ASSERT_TRUE(ledger_->EndAgent("worker-1", Gone()).ok());
    ASSERT_TRUE(ledger_
                    ->CompleteAttempt(Claim(id, 0)->key,
                                      Ended(gq::v1::ATTEMPT_STATE_FAILED, "BOARD_FAILED"))
                    .ok());
  }
  EXPECT_EQ(Get(id).steps(0).state(), gq::v1::STEP_STATE_QUEUED) << "two of each kind";
  ASSERT_TRUE(
      ledger_
          ->CompleteAttempt(Claim(id, 0)->key, Ended(gq::v1::ATTEMPT_STATE_FAILED, "BOARD_FAILED"))
          .ok());
  EXPECT_EQ(Get(id).failure().reason(), "BOARD_FAILED");
}

TEST_P(LedgerLeases, FaultyInputIsNotTriedAgain) {
  const std::string id = Submit(TwoSteps()).id();
  ASSERT_TRUE(
      ledger_
          ->CompleteAttempt(Claim(id, 0)->key, Ended(gq::v1::ATTEMPT_STATE_FAILED, "MODEL_INVALID"))
          .ok());
  const gq::v1::Job job = Get(id);
  EXPECT_EQ(job.state(), gq::v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.failure().reason(), "MODEL_INVALID");
  EXPECT_EQ(job.steps(0).state(), gq::v1::STEP_STATE_FAILED);
  EXPECT_EQ(job.steps(1).state(), gq::v1::STEP_STATE_CANCELLED);
}

TEST_P(LedgerLeases, StepThatRanTooLongFailsWithTimeout) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  ASSERT_TRUE(ledger_->StopLease(lease.key, "TIMEOUT").ok());
  ASSERT_TRUE(ledger_->CompleteAttempt(lease.key, Ended(gq::v1::ATTEMPT_STATE_CANCELLED, "")).ok());
  EXPECT_EQ(Get(id).failure().reason(), "TIMEOUT");
  EXPECT_EQ(Get(id).failure().failure_class(), gq::v1::FAILURE_CLASS_TIMEOUT);
}

TEST_P(LedgerLeases, NewSessionEndsTheLeasesOfTheOldOne) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  const ContactOutcome outcome = Contact("worker-1", "s2", {lease.key});
  EXPECT_TRUE(outcome.new_session);
  ASSERT_EQ(outcome.ended.size(), 1u);
  EXPECT_EQ(outcome.lost.size(), 1u);
  EXPECT_EQ(Get(id).steps(0).state(), gq::v1::STEP_STATE_QUEUED);
  // The old process is told apart from a new one.
  AgentContact old;
  old.agent = "worker-1";
  old.session = "s1";
  EXPECT_EQ(GetReason(ledger_->RecordContact(old).status()), Reason::kLeaseLost);
}

TEST_P(LedgerLeases, CancelledJobIsCancelledAlsoWhenItsAgentIsLost) {
  const std::string id = Submit(TwoSteps()).id();
  ASSERT_TRUE(Claim(id, 0).ok());
  ASSERT_TRUE(ledger_->RequestCancel(kAlice, id, "").ok());
  ASSERT_TRUE(ledger_->EndAgent("worker-1", Gone()).ok());
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_CANCELLED);
}

TEST_P(LedgerLeases, IterationsAreStoredOnceAndHandedToTheNextTry) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  gq::v1::Iteration iteration;
  iteration.set_number(1);
  iteration.set_candidate("all VINT8");
  ASSERT_TRUE(ledger_->RecordIteration(lease.key, iteration).ok());
  iteration.set_candidate("something else");
  ASSERT_TRUE(ledger_->RecordIteration(lease.key, iteration).ok());
  iteration.set_number(2);
  ASSERT_TRUE(ledger_->RecordIteration(lease.key, iteration).ok());
  const auto stored = *ledger_->ListIterations(id, 0, 10);
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0].candidate(), "all VINT8");
  EXPECT_EQ(ledger_->ListIterations(id, 1, 10)->size(), 1u);
  ASSERT_TRUE(ledger_->EndAgent("worker-1", Gone()).ok());
  EXPECT_EQ(ledger_->LoadLease(Claim(id, 0)->key.lease_id)->iterations_size(), 2);
}

TEST_P(LedgerLeases, RestartEndsLocalLeasesAndGivesOthersMoreTime) {
  ASSERT_TRUE(ledger_->RegisterLocalAgent("worker-1").ok());
  Contact("far", "f1");
  const std::string local = Submit(TwoSteps()).id();
  const std::string remote = Submit(TwoSteps()).id();
  ASSERT_TRUE(Claim(local, 0).ok());
  const LeaseRecord lease = *Claim(remote, 0, "far", "f1");
  clock_.Advance(absl::Hours(1));
  Reopen();
  EXPECT_EQ(ledger_->RecoverLeases(absl::Seconds(150))->size(), 1u);
  EXPECT_EQ(*ledger_->Epoch(), 1);
  EXPECT_EQ(Get(local).steps(0).state(), gq::v1::STEP_STATE_QUEUED);
  EXPECT_EQ(Get(remote).steps(0).state(), gq::v1::STEP_STATE_RUNNING);
  clock_.Advance(absl::Seconds(149));
  EXPECT_TRUE(ledger_->ExpireLeases(absl::ZeroDuration())->empty());
  EXPECT_TRUE(Contact("far", "f1", {lease.key}).lost.empty());
  EXPECT_TRUE(ledger_->CompleteAttempt(lease.key, Succeeded()).ok());
  // A restart of the server is nobody's fault.
  for (int i = 0; i < 5; ++i) {
    Contact("worker-1", "again" + std::to_string(i));
    ASSERT_TRUE(Claim(local, 0, "worker-1", "again" + std::to_string(i)).ok());
    ASSERT_EQ(ledger_->RecoverLeases(absl::Seconds(150))->size(), 1u);
  }
  EXPECT_EQ(Get(local).steps(0).state(), gq::v1::STEP_STATE_QUEUED);
}

TEST_P(LedgerLeases, UsageCountsRunningWorkAndRecentTime) {
  const std::string id = Submit(TwoSteps()).id();
  const LeaseRecord lease = *Claim(id, 0);
  clock_.Advance(absl::Seconds(30));
  ASSERT_TRUE(ledger_->CompleteAttempt(lease.key, Succeeded()).ok());
  ASSERT_TRUE(Claim(id, 1).ok());
  const auto usage = *ledger_->ListUsage(clock_.Now() - absl::Hours(1));
  ASSERT_EQ(usage.size(), 1u);
  EXPECT_EQ(usage[0].principal, "alice");
  EXPECT_EQ(usage[0].running, 1);
  EXPECT_NEAR(usage[0].recent_seconds, 30, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, LedgerLeases, testing::Values(&MakeSqliteLedger));

}  // namespace
}  // namespace gq::server
