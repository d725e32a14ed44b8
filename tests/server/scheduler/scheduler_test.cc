// The scheduler against a real ledger, with agents played by the test and time that it moves.
#include "server/scheduler/scheduler.h"

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/sqlite_ledger.h"
#include "tests/server/manual_clock.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() { EXPECT_TRUE(scheduler_.Recover({}).ok()); }

  static gq::v1::SynchronizeRequest Worker(const std::string& name, int free_slots = 1) {
    gq::v1::SynchronizeRequest request;
    request.set_agent_id(name);
    request.set_session_id(name + "-session");
    request.add_capabilities("cpu");
    request.set_free_slots(free_slots);
    return request;
  }
  static gq::v1::SynchronizeRequest Agent(const std::string& name,
                                          const std::vector<std::string>& boards) {
    gq::v1::SynchronizeRequest request = Worker(name, 4);
    request.clear_capabilities();
    request.add_capabilities("compile:sim");
    request.add_capabilities("exec:ve2-sim");
    for (const std::string& board : boards) {
      gq::v1::BoardReport* report = request.add_boards();
      report->set_name(board);
      report->set_device("ve2-sim");
      report->set_backend("sim");
      report->set_health(gq::v1::BOARD_HEALTH_GOOD);
    }
    return request;
  }
  static gq::v1::LeaseReport* Report(gq::v1::SynchronizeRequest* request,
                                     const gq::v1::Lease& lease,
                                     gq::v1::LeasePhase phase = gq::v1::LEASE_PHASE_RUNNING) {
    gq::v1::LeaseReport* report = request->add_leases();
    report->set_lease_id(lease.lease_id());
    report->set_generation(lease.generation());
    report->set_phase(phase);
    return report;
  }

  gq::v1::SynchronizeResponse Sync(const gq::v1::SynchronizeRequest& request,
                                   bool* urgent = nullptr) {
    auto response = scheduler_.TakeReport(request);
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return {};
    auto now = scheduler_.AddOrders(request, &*response);
    EXPECT_TRUE(now.ok()) << now.status();
    if (urgent != nullptr) *urgent = now.value_or(false);
    return *response;
  }

  std::string Submit(std::vector<NeedKind> needs = {NeedKind::kCpu},
                     const std::string& principal = "alice") {
    NewJob job;
    for (const NeedKind kind : needs) {
      StepPlan& step = job.steps.emplace_back();
      step.kind = gq::v1::STEP_KIND_EVALUATE;
      step.title = "Step";
      step.need.kind = kind;
      if (kind != NeedKind::kCpu) step.need.device = "ve2";
    }
    job.actor = {principal, "Test"};
    return ledger_->CreateJob(job)->id();
  }
  gq::v1::Job Get(const std::string& id) {
    gq::v1::Job job = ledger_->GetJob(id).value_or(gq::v1::Job());
    scheduler_.Enrich(&job);
    return job;
  }

  tests::TemporaryFolder folder_;
  ManualClock clock_;
  std::unique_ptr<SqliteLedger> ledger_ =
      SqliteLedger::Open(folder_.path() / "ledger.db", clock_).value();
  LogStore logs_{folder_.path() / "logs", 1 << 20, clock_};
  ChangeHub hub_;
  Scheduler scheduler_{*ledger_, logs_, hub_, clock_};
};

TEST_F(SchedulerTest, IdleWorkerGetsTheStepAndItsResultEndsTheJob) {
  const std::string id = Submit();
  gq::v1::SynchronizeRequest request = Worker("w");
  bool urgent = false;
  const auto response = Sync(request, &urgent);
  EXPECT_TRUE(urgent);
  ASSERT_EQ(response.run_size(), 1);
  EXPECT_EQ(response.run(0).job_id(), id);
  EXPECT_EQ(response.lease_ttl().seconds(), 60);
  auto* report = Report(&request, response.run(0), gq::v1::LEASE_PHASE_ENDED);
  report->mutable_result()->set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
  const auto after = Sync(request, &urgent);
  EXPECT_THAT(after.acknowledged(), ElementsAre(response.run(0).lease_id()));
  EXPECT_TRUE(urgent);
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_SUCCEEDED);
  // The answer was lost: the agent says it again and is believed.
  EXPECT_EQ(Sync(request).acknowledged_size(), 1);
}

TEST_F(SchedulerTest, NothingToDoMayWait) {
  bool urgent = true;
  Sync(Worker("w"), &urgent);
  EXPECT_FALSE(urgent);
  Submit();
  Sync(Worker("w", 0), &urgent);
  EXPECT_FALSE(urgent) << "no free place";
}

TEST_F(SchedulerTest, AssignmentIsRepeatedUntilItIsReported) {
  Submit();
  Submit();
  gq::v1::SynchronizeRequest request = Worker("w");
  const auto first = Sync(request);
  ASSERT_EQ(first.run_size(), 1);
  const auto second = Sync(request);
  ASSERT_EQ(second.run_size(), 1) << "one place, so no second step";
  EXPECT_EQ(second.run(0).lease_id(), first.run(0).lease_id());
  request.set_free_slots(0);
  Report(&request, first.run(0));
  EXPECT_EQ(Sync(request).run_size(), 0);
  // A lease that was taken up is never started again.
  request.clear_leases();
  EXPECT_EQ(Sync(request).run_size(), 0);
}

TEST_F(SchedulerTest, CancelIsToldAtOnceAndThenWithoutHaste) {
  const std::string id = Submit();
  gq::v1::SynchronizeRequest request = Worker("w");
  const auto lease = Sync(request).run(0);
  request.set_free_slots(0);
  Report(&request, lease);
  Sync(request);
  ASSERT_TRUE(ledger_->RequestCancel({"alice", "Test"}, id, "").ok());
  bool urgent = false;
  auto response = Sync(request, &urgent);
  EXPECT_TRUE(urgent);
  ASSERT_EQ(response.cancel_size(), 1);
  EXPECT_EQ(response.cancel(0).reason(), "CANCELLED");
  response = Sync(request, &urgent);
  EXPECT_FALSE(urgent) << "the agent is stopping the work";
  EXPECT_EQ(response.cancel_size(), 1);
  request.clear_leases();
  auto* ended = Report(&request, lease, gq::v1::LEASE_PHASE_ENDED);
  ended->mutable_result()->set_state(gq::v1::ATTEMPT_STATE_CANCELLED);
  EXPECT_EQ(Sync(request).acknowledged_size(), 1);
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_CANCELLED);
}

TEST_F(SchedulerTest, LostLeaseIsStopped) {
  const std::string id = Submit();
  gq::v1::SynchronizeRequest request = Worker("w");
  const auto lease = Sync(request).run(0);
  clock_.Advance(absl::Seconds(91));
  scheduler_.Sweep();
  EXPECT_EQ(Get(id).steps(0).attempts(0).state(), gq::v1::ATTEMPT_STATE_LOST);
  request.set_free_slots(0);
  Report(&request, lease);
  bool urgent = false;
  auto response = Sync(request, &urgent);
  ASSERT_EQ(response.cancel_size(), 1);
  EXPECT_EQ(response.cancel(0).reason(), "LEASE_LOST");
  EXPECT_TRUE(urgent);
  // Its result comes too late.
  request.clear_leases();
  auto* ended = Report(&request, lease, gq::v1::LEASE_PHASE_ENDED);
  ended->mutable_result()->set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
  response = Sync(request);
  EXPECT_EQ(response.acknowledged_size(), 0);
  EXPECT_EQ(response.cancel(0).reason(), "LEASE_LOST");
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_RUNNING);
}

TEST_F(SchedulerTest, EndOfAChildEndsItsLeaseAtOnce) {
  const std::string id = Submit();
  Sync(Worker("worker-1"));
  ASSERT_TRUE(scheduler_.AgentExited("worker-1", "signal 9 (Killed)", true).ok());
  const gq::v1::Job job = Get(id);
  EXPECT_EQ(job.steps(0).state(), gq::v1::STEP_STATE_QUEUED);
  EXPECT_THAT(job.steps(0).attempts(0).failure().message(), HasSubstr("signal 9"));
  EXPECT_EQ(job.waiting_reason(), "no worker is connected; position 1");
}

TEST_F(SchedulerTest, StepThatRunsTooLongIsStopped) {
  NewJob job;
  job.steps.push_back({gq::v1::STEP_KIND_EVALUATE, "Evaluate", {}});
  job.spec.mutable_run_timeout()->set_seconds(10);
  job.actor = {"alice", "Test"};
  const std::string id = ledger_->CreateJob(job)->id();
  gq::v1::SynchronizeRequest request = Worker("w");
  const auto lease = Sync(request).run(0);
  EXPECT_EQ(lease.run_timeout().seconds(), 10);
  request.set_free_slots(0);
  Report(&request, lease);
  clock_.Advance(absl::Seconds(39));
  Sync(request);
  scheduler_.Sweep();
  EXPECT_EQ(Sync(request).cancel_size(), 0) << "the agent is to notice by itself";
  clock_.Advance(absl::Seconds(2));
  scheduler_.Sweep();
  ASSERT_EQ(Sync(request).cancel_size(), 1);
  EXPECT_EQ(Sync(request).cancel(0).reason(), "TIMEOUT");
}

TEST_F(SchedulerTest, StepsGoWhereTheyCanRun) {
  const std::string id = Submit({NeedKind::kCompile, NeedKind::kExec});
  EXPECT_EQ(Sync(Worker("w")).run_size(), 0) << "a worker has no board";
  gq::v1::SynchronizeRequest agent = Agent("a", {"b1"});
  const auto compile = Sync(agent);
  ASSERT_EQ(compile.run_size(), 1);
  EXPECT_EQ(compile.run(0).board(), "b1");
  auto* ended = Report(&agent, compile.run(0), gq::v1::LEASE_PHASE_ENDED);
  ended->mutable_result()->set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
  const auto exec = Sync(agent);
  ASSERT_EQ(exec.run_size(), 1);
  EXPECT_EQ(exec.run(0).step_index(), 1);
  EXPECT_EQ(scheduler_.Boards()->at(0).board.state(), gq::v1::BOARD_STATE_RUNNING);
  EXPECT_EQ(scheduler_.Boards()->at(0).board.job_id(), id);
}

TEST_F(SchedulerTest, BoardRunIsLeftOutWhenTheOffloadIsTooSmall) {
  NewJob job;
  for (const NeedKind kind : {NeedKind::kCompile, NeedKind::kExec}) {
    StepPlan& step = job.steps.emplace_back();
    step.kind = kind == NeedKind::kExec ? gq::v1::STEP_KIND_BOARD_RUN : gq::v1::STEP_KIND_COMPILE;
    step.title = "Step";
    step.need.kind = kind;
  }
  job.spec.set_exec_if("offload>=98%");
  job.actor = {"alice", "Test"};
  const std::string id = ledger_->CreateJob(job)->id();
  gq::v1::SynchronizeRequest agent = Agent("a", {"b1"});
  const auto compile = Sync(agent);
  ASSERT_EQ(compile.run_size(), 1);
  auto* result = Report(&agent, compile.run(0), gq::v1::LEASE_PHASE_ENDED)->mutable_result();
  result->set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
  result->set_report_json(R"({"offload":{"gops_percent":91}})");
  EXPECT_EQ(Sync(agent).run_size(), 0);
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(id).steps(1).skip_reason(), "offload 91 % is below 98 %");
}

TEST_F(SchedulerTest, ExecutionIsGivenUpWhenItsBoardsAreGoneForGood) {
  Sync(Agent("a", {"b1"}));
  const std::string id = Submit({NeedKind::kExec});
  ASSERT_TRUE(ledger_->SetBoardHealth({"admin", "Test"}, "b1", gq::v1::BOARD_HEALTH_BAD, "").ok());
  scheduler_.Sweep();
  clock_.Advance(absl::Minutes(4));
  Sync(Agent("a", {"b1"}));
  scheduler_.Sweep();
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_QUEUED);
  clock_.Advance(absl::Minutes(2));
  scheduler_.Sweep();
  EXPECT_EQ(Get(id).state(), gq::v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get(id).failure().reason(), "NO_ELIGIBLE_BOARD");
}

TEST_F(SchedulerTest, OneBoardOneExecution) {
  Submit({NeedKind::kExec});
  Submit({NeedKind::kExec});
  Submit({NeedKind::kExec});
  const auto response = Sync(Agent("a", {"b1", "b2"}));
  ASSERT_EQ(response.run_size(), 2);
  EXPECT_NE(response.run(0).board(), response.run(1).board());
}

TEST_F(SchedulerTest, ReservedBoardServesItsOwnerOnly) {
  Sync(Agent("a", {"b1"}));
  ASSERT_TRUE(ledger_->ReserveBoard({"bob", "Test"}, "b1", clock_.Now() + absl::Hours(1), "").ok());
  const std::string other = Submit({NeedKind::kExec}, "alice");
  EXPECT_EQ(Sync(Agent("a", {"b1"})).run_size(), 0);
  EXPECT_THAT(Get(other).waiting_reason(), HasSubstr("reserved until"));
  const std::string owner = Submit({NeedKind::kExec}, "bob");
  const auto response = Sync(Agent("a", {"b1"}));
  ASSERT_EQ(response.run_size(), 1);
  EXPECT_EQ(response.run(0).job_id(), owner);
}

TEST_F(SchedulerTest, JobThatNothingCouldRunIsRefusedWithWhatExists) {
  StepPlan compile;
  compile.title = "Compile";
  compile.need.kind = NeedKind::kCompile;
  compile.need.device = "ve2-xc2ve3858";
  absl::Status status = scheduler_.CheckRunnable({compile});
  EXPECT_EQ(GetReason(status), Reason::kNoEligibleBoard);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no board is registered"));
  Sync(Agent("a", {"b1"}));
  status = scheduler_.CheckRunnable({compile});
  EXPECT_THAT(std::string(status.message()), HasSubstr("ve2-sim"));
  compile.need.device = "ve2";
  EXPECT_TRUE(scheduler_.CheckRunnable({compile}).ok());
  // Boards that are offline come back.
  clock_.Advance(absl::Hours(1));
  EXPECT_TRUE(scheduler_.CheckRunnable({compile}).ok());
}

TEST_F(SchedulerTest, HealthCheckIsAskedForOnce) {
  Sync(Agent("a", {"b1"}));
  ASSERT_TRUE(ledger_->RequestHealthCheck({"admin", "Test"}, "b1").ok());
  EXPECT_THAT(Sync(Agent("a", {"b1"})).health_checks(), ElementsAre("b1"));
  EXPECT_EQ(Sync(Agent("a", {"b1"})).health_checks_size(), 0);
}

TEST_F(SchedulerTest, ProgressIsShownWhileTheStepRuns) {
  const std::string id = Submit();
  gq::v1::SynchronizeRequest request = Worker("w");
  const auto lease = Sync(request).run(0);
  auto* progress = Report(&request, lease)->mutable_progress();
  progress->set_component("Calibrate");
  progress->set_done(3);
  progress->set_total(9);
  Sync(request);
  EXPECT_EQ(Get(id).steps(0).progress().done(), 3);
}

TEST_F(SchedulerTest, DrainingServerHandsOutNothing) {
  Submit();
  scheduler_.StartDraining();
  bool urgent = false;
  const auto response = Sync(Worker("w"), &urgent);
  EXPECT_EQ(response.run_size(), 0);
  EXPECT_FALSE(response.drain()) << "agents elsewhere go on";
  EXPECT_TRUE(urgent);
}

TEST_F(SchedulerTest, WorkIsSpreadOverPrincipals) {
  for (int i = 0; i < 4; ++i) Submit({NeedKind::kCpu}, "alice");
  for (int i = 0; i < 2; ++i) Submit({NeedKind::kCpu}, "bob");
  std::map<std::string, int> share;
  gq::v1::SynchronizeResponse response;
  for (int i = 0; i < 4; ++i) {
    const auto run = Sync(Worker("w" + std::to_string(i))).run(0);
    ++share[ledger_->GetJob(run.job_id())->principal()];
  }
  EXPECT_EQ(share["alice"], 2);
  EXPECT_EQ(share["bob"], 2);
}

}  // namespace
}  // namespace gq::server
