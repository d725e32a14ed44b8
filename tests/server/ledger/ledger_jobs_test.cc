// Conformance of a ledger: jobs, steps, events.
#include "common/base/status.h"
#include "tests/server/ledger/ledger_fixture.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

class LedgerJobs : public LedgerTest {};

TEST_P(LedgerJobs, NewJobWaitsWithItsFirstStepQueued) {
  const gq::v1::Job job = Submit(TwoSteps());
  EXPECT_EQ(job.state(), gq::v1::JOB_STATE_QUEUED);
  EXPECT_EQ(job.principal(), "alice");
  ASSERT_EQ(job.steps_size(), 2);
  EXPECT_EQ(job.steps(0).state(), gq::v1::STEP_STATE_QUEUED);
  EXPECT_EQ(job.steps(1).state(), gq::v1::STEP_STATE_WAITING);
  EXPECT_EQ(job.steps(1).title(), "Evaluate");
  EXPECT_EQ(job.create_time().seconds(), 1'800'000'000);
  EXPECT_EQ(Get(job.id()).SerializeAsString(), job.SerializeAsString());
}

TEST_P(LedgerJobs, SameRequestGivesTheSameJob) {
  const gq::v1::Job first = Submit(TwoSteps("r1"));
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(Submit(TwoSteps("r1")).id(), first.id());
  EXPECT_NE(Submit(TwoSteps("r2")).id(), first.id());
  EXPECT_EQ(ledger_->FindSubmitted("alice", "r1", "d1")->id(), first.id());
}

TEST_P(LedgerJobs, SameRequestSurvivesAReopen) {
  const gq::v1::Job first = Submit(TwoSteps("r1"));
  Reopen();
  EXPECT_EQ(Submit(TwoSteps("r1")).id(), first.id());
}

TEST_P(LedgerJobs, RequestIdWithAnotherJobIsRefused) {
  Submit(TwoSteps("r1", "d1"));
  EXPECT_EQ(GetReason(ledger_->CreateJob(TwoSteps("r1", "d2")).status()), Reason::kRequestIdReused);
}

TEST_P(LedgerJobs, RequestOfADeletedJobMakesANewOne) {
  const std::string first = Submit(TwoSteps("r1")).id();
  ASSERT_TRUE(ledger_->RequestCancel(kAlice, first, "").ok());
  ASSERT_TRUE(ledger_->DeleteJob(kAlice, first).ok());
  EXPECT_NE(Submit(TwoSteps("r1")).id(), first);
}

TEST_P(LedgerJobs, OldRequestsAreForgotten) {
  const std::string first = Submit(TwoSteps("r1")).id();
  clock_.Advance(absl::Hours(24));
  ASSERT_TRUE(ledger_->ForgetOldRecords(absl::Hours(48)).ok());
  EXPECT_EQ(Submit(TwoSteps("r1")).id(), first);
  ASSERT_TRUE(ledger_->ForgetOldRecords(absl::Hours(12)).ok());
  EXPECT_NE(Submit(TwoSteps("r1")).id(), first);
}

TEST_P(LedgerJobs, RequestIdsOfDifferentPrincipalsAreDifferent) {
  const gq::v1::Job first = Submit(TwoSteps("r1"));
  NewJob other = TwoSteps("r1");
  other.actor.principal = "bob";
  EXPECT_NE(Submit(other).id(), first.id());
}

TEST_P(LedgerJobs, JobWithAMissingBlobIsRefusedAndLeavesNothing) {
  NewJob job = TwoSteps("r1");
  job.blobs = {DigestOf('a', 7)};
  EXPECT_EQ(GetReason(ledger_->CreateJob(job).status()), Reason::kBlobMissing);
  EXPECT_TRUE(ledger_->ListJobs({.viewer = {.sees_all = true}})->empty());
  // The same request works once the blob is there.
  ASSERT_TRUE(ledger_->RecordBlob("alice", DigestOf('a', 7)).ok());
  EXPECT_TRUE(ledger_->CreateJob(job).ok());
}

TEST_P(LedgerJobs, BlobOfSomebodyElseDoesNotCount) {
  ASSERT_TRUE(ledger_->RecordBlob("bob", DigestOf('a', 7)).ok());
  NewJob job = TwoSteps();
  job.blobs = {DigestOf('a', 7)};
  EXPECT_EQ(GetReason(ledger_->CreateJob(job).status()), Reason::kBlobMissing);
}

TEST_P(LedgerJobs, IdsGrowAndListIsNewestFirst) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Submit(TwoSteps()).id());
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  JobFilter filter{.viewer = {.sees_all = true}, .limit = 2};
  auto page = *ledger_->ListJobs(filter);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].id(), ids[4]);
  EXPECT_EQ(page[0].steps_size(), 2);
  filter.before_id = page[1].id();
  page = *ledger_->ListJobs(filter);
  EXPECT_EQ(page[0].id(), ids[2]);
}

TEST_P(LedgerJobs, ListFilters) {
  NewJob labelled = TwoSteps();
  labelled.spec.set_name("resnet 50%");
  (*labelled.spec.mutable_label())["team"] = "vision";
  const std::string id = Submit(labelled).id();
  const std::string plain = Submit(TwoSteps()).id();
  ASSERT_TRUE(ledger_->RequestCancel(kAlice, plain, "").ok());
  const auto only = [&](JobFilter filter) {
    filter.viewer.sees_all = true;
    std::vector<std::string> ids;
    const auto jobs = ledger_->ListJobs(filter).value();
    for (const auto& job : jobs) ids.push_back(job.id());
    return ids;
  };
  EXPECT_THAT(only({.states = {gq::v1::JOB_STATE_CANCELLED}}), ElementsAre(plain));
  EXPECT_THAT(only({.name_contains = "50%"}), ElementsAre(id));
  EXPECT_THAT(only({.name_contains = "5%0"}), ElementsAre());
  EXPECT_THAT(only({.labels = {{"team", "vision"}}}), ElementsAre(id));
  EXPECT_THAT(only({.labels = {{"team", "audio"}}}), ElementsAre());
  EXPECT_THAT(only({.principal = "bob"}), ElementsAre());
}

TEST_P(LedgerJobs, PrivateJobsAreVisibleToTheirOwnerOnly) {
  const std::string secret = Submit(TwoSteps()).id();
  NewJob shared = TwoSteps();
  shared.spec.set_visibility("team");
  const std::string team = Submit(shared).id();
  const Viewer bob{"bob"};
  EXPECT_EQ(GetReason(ledger_->ResolveJobId(bob, secret).status()), Reason::kNotFound);
  EXPECT_EQ(*ledger_->ResolveJobId(bob, team), team);
  EXPECT_EQ(ledger_->ListJobs({.viewer = bob})->size(), 1u);
  EXPECT_EQ(*ledger_->ResolveJobId({.principal = "root", .sees_all = true}, secret), secret);
}

TEST_P(LedgerJobs, IdsCanBeShortened) {
  const std::string first = Submit(TwoSteps()).id();
  clock_.Advance(absl::Hours(24 * 365));
  const std::string second = Submit(TwoSteps()).id();
  const Viewer alice{"alice"};
  EXPECT_EQ(*ledger_->ResolveJobId(alice, first.substr(0, 8)), first);
  EXPECT_EQ(*ledger_->ResolveJobId(alice, "@last"), second);
  EXPECT_EQ(GetReason(ledger_->ResolveJobId(alice, first.substr(0, 1)).status()),
            Reason::kAmbiguousId);
  for (const char* nonsense : {"", "zzzz", "ABC", "%", "a b", "'; DROP TABLE job; --"}) {
    EXPECT_EQ(GetReason(ledger_->ResolveJobId(alice, nonsense).status()), Reason::kNotFound)
        << nonsense;
  }
}

TEST_P(LedgerJobs, EventsHaveNoGaps) {
  const std::string id = Submit(TwoSteps()).id();
  Contact("worker-1", "s1");
  for (int step = 0; step < 2; ++step) {
    const LeaseRecord lease = *Claim(id, step);
    ASSERT_TRUE(ledger_->CompleteAttempt(lease.key, Succeeded()).ok());
  }
  const auto events = *ledger_->ListEvents(id, 1, 100);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i + 1));
  }
  EXPECT_EQ(Get(id).last_event(), static_cast<int64_t>(events.size()));
  EXPECT_EQ(events.back().job_state(), gq::v1::JOB_STATE_SUCCEEDED);
  const auto tail = *ledger_->ListEvents(id, 3, 2);
  ASSERT_EQ(tail.size(), 2u);
  EXPECT_EQ(tail[0].sequence(), 3);
}

TEST_P(LedgerJobs, QueuedJobIsCancelledAtOnce) {
  const std::string id = Submit(TwoSteps()).id();
  const auto job = *ledger_->RequestCancel(kAlice, id, "not needed");
  EXPECT_EQ(job.state(), gq::v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.steps(0).state(), gq::v1::STEP_STATE_CANCELLED);
  EXPECT_THAT(ledger_->ListEvents(id, 1, 10)->back().message(), HasSubstr("not needed"));
  EXPECT_TRUE(ledger_->ListQueuedSteps()->empty());
  EXPECT_EQ(GetReason(ledger_->RequestCancel(kAlice, id, "").status()), Reason::kJobFinished);
}

TEST_P(LedgerJobs, RunningJobIsCancelledWhenItsStepHasStopped) {
  const std::string id = Submit(TwoSteps()).id();
  Contact("worker-1", "s1");
  const LeaseRecord lease = *Claim(id, 0);
  EXPECT_EQ(ledger_->RequestCancel(kAlice, id, "")->state(), gq::v1::JOB_STATE_CANCELLING);
  EXPECT_EQ(ledger_->CheckLease(lease.key)->cancel_reason, "CANCELLED");
  ASSERT_TRUE(
      ledger_->CompleteAttempt(lease.key, Ended(gq::v1::ATTEMPT_STATE_CANCELLED, "CANCELLED"))
          .ok());
  const gq::v1::Job job = Get(id);
  EXPECT_EQ(job.state(), gq::v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.steps(0).attempts(0).state(), gq::v1::ATTEMPT_STATE_CANCELLED);
}

TEST_P(LedgerJobs, RetryGoesOnFromTheStepThatFailed) {
  const std::string id = Submit(TwoSteps()).id();
  Contact("worker-1", "s1");
  EXPECT_EQ(GetReason(ledger_->RetryJob(kAlice, id).status()), Reason::kJobNotFinished);
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(id, 0)->key, Succeeded()).ok());
  ASSERT_TRUE(
      ledger_
          ->CompleteAttempt(Claim(id, 1)->key, Ended(gq::v1::ATTEMPT_STATE_FAILED, "DATA_INVALID"))
          .ok());
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_FAILED);
  const gq::v1::Job job = *ledger_->RetryJob(kAlice, id);
  EXPECT_EQ(job.state(), gq::v1::JOB_STATE_QUEUED);
  EXPECT_FALSE(job.has_failure());
  EXPECT_FALSE(job.has_end_time());
  EXPECT_EQ(job.steps(0).state(), gq::v1::STEP_STATE_SUCCEEDED);
  EXPECT_EQ(job.steps(1).state(), gq::v1::STEP_STATE_QUEUED);
  const LeaseRecord lease = *Claim(id, 1);
  EXPECT_EQ(lease.attempt, 3) << "attempts of a job are numbered on";
  ASSERT_TRUE(ledger_->CompleteAttempt(lease.key, Succeeded()).ok());
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(GetReason(ledger_->RetryJob(kAlice, id).status()), Reason::kJobFinished);
}

TEST_P(LedgerJobs, DeleteRemovesAnEndedJobAndItsReferences) {
  ASSERT_TRUE(ledger_->RecordBlob("alice", DigestOf('a', 7)).ok());
  NewJob job = TwoSteps("r1");
  job.blobs = {DigestOf('a', 7)};
  const std::string id = Submit(job).id();
  EXPECT_EQ(GetReason(ledger_->DeleteJob(kAlice, id)), Reason::kJobNotFinished);
  ASSERT_TRUE(ledger_->RequestCancel(kAlice, id, "").ok());
  clock_.Advance(absl::Hours(2));
  EXPECT_TRUE(ledger_->ListUnusedBlobs(absl::Hours(1))->empty());
  ASSERT_TRUE(ledger_->DeleteJob(kAlice, id).ok());
  EXPECT_EQ(GetReason(ledger_->GetJob(id).status()), Reason::kNotFound);
  EXPECT_EQ(ledger_->ListUnusedBlobs(absl::Hours(1))->size(), 1u);
  EXPECT_TRUE(ledger_->ListEvents(id, 1, 10)->empty());
}

TEST_P(LedgerJobs, StepThatWaitsTooLongEndsItsJob) {
  NewJob patient = TwoSteps();
  NewJob hurried = TwoSteps();
  hurried.spec.mutable_queue_timeout()->set_seconds(60);
  NewJob board = hurried;
  board.steps = {CpuStep(gq::v1::STEP_KIND_COMPILE, "Compile"),
                 CpuStep(gq::v1::STEP_KIND_BOARD_RUN, "Board Run")};
  const std::string patient_id = Submit(patient).id();
  const std::string hurried_id = Submit(hurried).id();
  const std::string board_id = Submit(board).id();
  Contact("worker-1", "s1");
  ASSERT_TRUE(ledger_->CompleteAttempt(Claim(board_id, 0)->key, Succeeded()).ok());
  EXPECT_TRUE(ledger_->ExpireQueuedSteps()->empty());
  clock_.Advance(absl::Seconds(61));
  EXPECT_THAT(*ledger_->ExpireQueuedSteps(), testing::UnorderedElementsAre(hurried_id, board_id));
  EXPECT_EQ(Get(patient_id).state(), gq::v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get(hurried_id).failure().failure_class(), gq::v1::FAILURE_CLASS_TIMEOUT);
  EXPECT_EQ(Get(hurried_id).steps(1).state(), gq::v1::STEP_STATE_CANCELLED);
  EXPECT_EQ(Get(board_id).state(), gq::v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get(board_id).steps(0).state(), gq::v1::STEP_STATE_SUCCEEDED);
  EXPECT_EQ(Get(board_id).steps(1).state(), gq::v1::STEP_STATE_SKIPPED);
  // The board step alone is run by a retry.
  EXPECT_EQ(ledger_->RetryJob(kAlice, board_id)->steps(1).state(), gq::v1::STEP_STATE_QUEUED);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, LedgerJobs, testing::Values(&MakeSqliteLedger));

}  // namespace
}  // namespace gq::server
