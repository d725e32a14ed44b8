#include "server/scheduler/scheduler.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/exec_condition.h"
#include "server/ledger/enum_text.h"
#include "server/ledger/failure.h"
#include "server/scheduler/placement.h"
#include "spdlog/spdlog.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// Beyond its run time-out an attempt has this long to end by itself.
constexpr absl::Duration kStopGrace = absl::Seconds(30);
// Child processes have this long to call for the first time.
constexpr absl::Duration kStartTime = absl::Seconds(20);
constexpr size_t kMaxName = 200;
// A step that failed on a board is kept for boards of other hosts for so long.
constexpr absl::Duration kOthersFirst = absl::Seconds(3);
// Repeated requests are recognised for so long.
constexpr absl::Duration kRecordAge = absl::Hours(24 * 30);
constexpr absl::Duration kTidyInterval = absl::Hours(1);

bool HasCapability(const gq::v1::SynchronizeRequest& request, std::string_view capability) {
  return std::any_of(request.capabilities().begin(), request.capabilities().end(),
                     [&](const std::string& have) { return have == capability; });
}

void AddCancel(gq::v1::SynchronizeResponse* response, std::string_view lease_id,
               std::string_view reason) {
  for (const gq::v1::CancelLease& cancel : response->cancel()) {
    if (cancel.lease_id() == lease_id) return;
  }
  gq::v1::CancelLease* cancel = response->add_cancel();
  cancel->set_lease_id(std::string(lease_id));
  cancel->set_reason(std::string(reason));
}

absl::Status CheckRequest(const gq::v1::SynchronizeRequest& request) {
  if (request.agent_id().empty() || request.agent_id().size() > kMaxName ||
      request.session_id().empty() || request.session_id().size() > kMaxName) {
    return MakeError(Reason::kInvalidFlag, "agent_id and session_id are required, up to 200 bytes");
  }
  for (const gq::v1::BoardReport& board : request.boards()) {
    if (board.name().empty() || board.name().size() > kMaxName || board.device().empty()) {
      return MakeError(Reason::kInvalidFlag, "every board has a name and a device");
    }
  }
  return absl::OkStatus();
}

}  // namespace

Scheduler::Scheduler(Ledger& ledger, LogStore& logs, ChangeHub& hub, const base::Clock& clock,
                     LeaseTimes times)
    : ledger_(ledger), logs_(logs), hub_(hub), clock_(clock), times_(times) {}

absl::Status Scheduler::Recover(const std::vector<std::string>& local_agents) {
  GQ_ASSIGN_OR_RETURN(const auto ended, ledger_.RecoverLeases(times_.restart_grace));
  AttemptsEnded(ended);
  GQ_RETURN_IF_ERROR(ledger_.KeepLocalAgents(local_agents));
  for (const std::string& agent : local_agents) {
    GQ_RETURN_IF_ERROR(ledger_.RegisterLocalAgent(agent));
  }
  absl::MutexLock lock(&mutex_);
  local_agents_.insert(local_agents.begin(), local_agents.end());
  starting_ = local_agents_;
  starting_until_ = clock_.Now() + kStartTime;
  return absl::OkStatus();
}

absl::StatusOr<gq::v1::SynchronizeResponse> Scheduler::TakeReport(
    const gq::v1::SynchronizeRequest& request) {
  GQ_RETURN_IF_ERROR(CheckRequest(request));
  AgentContact contact;
  contact.agent = request.agent_id();
  contact.session = request.session_id();
  contact.version = request.version();
  contact.host = request.host();
  contact.capabilities.assign(request.capabilities().begin(), request.capabilities().end());
  contact.boards.assign(request.boards().begin(), request.boards().end());
  contact.ttl = times_.ttl;
  for (const gq::v1::LeaseReport& report : request.leases()) {
    if (report.phase() != gq::v1::LEASE_PHASE_ENDED) {
      contact.leases.push_back({report.lease_id(), report.generation()});
    }
  }
  GQ_ASSIGN_OR_RETURN(const ContactOutcome outcome, ledger_.RecordContact(contact));
  {
    absl::MutexLock lock(&mutex_);
    starting_.erase(request.agent_id());
  }
  gq::v1::SynchronizeResponse response;
  response.mutable_lease_ttl()->set_seconds(absl::ToInt64Seconds(times_.ttl));
  for (const LeaseKey& lost : outcome.lost) AddCancel(&response, lost.lease_id, "LEASE_LOST");
  AttemptsEnded(outcome.ended);
  if (outcome.new_session) {
    spdlog::info("agent connected agent={} host={} version={}", request.agent_id(), request.host(),
                 request.version());
  }
  if (outcome.boards_changed) {
    hub_.Publish(kBoardsTopic);
    hub_.Publish(kQueueTopic);
  }
  for (const gq::v1::LeaseReport& report : request.leases()) {
    if (report.phase() != gq::v1::LEASE_PHASE_ENDED) continue;
    GQ_RETURN_IF_ERROR(StoreResult(report, &response));
  }
  NoteProgress(request);
  return response;
}

absl::Status Scheduler::StoreResult(const gq::v1::LeaseReport& report,
                                    gq::v1::SynchronizeResponse* response) {
  const LeaseKey key{report.lease_id(), report.generation()};
  GQ_RETURN_IF_ERROR(PlanSkips(key, report.result()));
  absl::StatusOr<Completion> done = ledger_.CompleteAttempt(key, report.result());
  if (!done.ok() && base::GetReason(done.status()) == Reason::kBlobMissing) {
    // The result cannot be had any more; the step is tried again.
    gq::v1::StepResult lost;
    lost.set_state(gq::v1::ATTEMPT_STATE_LOST);
    lost.mutable_failure()->set_reason(std::string(base::ReasonName(Reason::kBlobMissing)));
    lost.mutable_failure()->set_message(std::string(done.status().message()));
    done = ledger_.CompleteAttempt(key, lost);
  }
  if (!done.ok()) {
    if (base::GetReason(done.status()) != Reason::kLeaseLost) return done.status();
    AddCancel(response, key.lease_id, "LEASE_LOST");
    return absl::OkStatus();
  }
  response->add_acknowledged(key.lease_id);
  if (done->duplicate) return absl::OkStatus();
  spdlog::info("attempt ended job={} attempt={} lease={} state={}", done->job_id, done->attempt,
               key.lease_id, AttemptStateText(report.result().state()));
  {
    absl::MutexLock lock(&mutex_);
    told_to_stop_.erase(key.lease_id);
  }
  AttemptEnded(done->job_id, done->attempt);
  return absl::OkStatus();
}

// A Compile step that does not meet `exec_if` leaves Board Run out, before any board is waited for.
absl::Status Scheduler::PlanSkips(const LeaseKey& key, const gq::v1::StepResult& result) {
  if (result.state() != gq::v1::ATTEMPT_STATE_SUCCEEDED) return absl::OkStatus();
  const absl::StatusOr<gq::v1::Lease> lease = ledger_.LoadLease(key.lease_id);
  // That the lease is over is found when the result is stored.
  if (!lease.ok() || lease->kind() != gq::v1::STEP_KIND_COMPILE ||
      lease->step_index() + 1 >= lease->step_count()) {
    return absl::OkStatus();
  }
  const std::string reason = job::WhyNotExecuted(lease->spec().exec_if(), result.report_json());
  if (reason.empty()) return absl::OkStatus();
  return ledger_.PlanSkip(lease->job_id(), lease->step_index() + 1, reason);
}

absl::StatusOr<bool> Scheduler::AddOrders(const gq::v1::SynchronizeRequest& request,
                                          gq::v1::SynchronizeResponse* response) {
  std::set<std::string, std::less<>> reported;
  for (const gq::v1::LeaseReport& report : request.leases()) reported.insert(report.lease_id());
  const bool draining_now = draining();
  response->set_drain(draining_now && IsLocal(request.agent_id()));
  // Several answers may still be under way; none hands out what another is about to.
  absl::MutexLock choice(&choice_mutex_);
  GQ_ASSIGN_OR_RETURN(const auto leases, ledger_.ListLeases(request.agent_id()));
  bool urgent = false;
  int unconfirmed = 0;
  for (const LeaseRecord& lease : leases) {
    if (lease.session != request.session_id()) continue;
    const std::string& id = lease.key.lease_id;
    const bool known = reported.count(id) > 0;
    if (!lease.cancel_reason.empty()) {
      AddCancel(response, id, lease.cancel_reason);
      absl::MutexLock lock(&mutex_);
      urgent |= told_to_stop_.insert(id).second;
      continue;
    }
    if (known || lease.confirmed) continue;
    // The agent has not said that it took this one up: it is told again.
    ++unconfirmed;
    const bool added = std::any_of(response->run().begin(), response->run().end(),
                                   [&](const gq::v1::Lease& run) { return run.lease_id() == id; });
    if (added) continue;
    GQ_ASSIGN_OR_RETURN(gq::v1::Lease run, ledger_.LoadLease(id));
    *response->add_run() = std::move(run);
  }
  GQ_ASSIGN_OR_RETURN(const auto checks, ledger_.TakeHealthChecks(request.agent_id()));
  for (const std::string& board : checks) response->add_health_checks(board);
  const int places = request.free_slots() - unconfirmed;
  if (places > 0 && !draining_now) GQ_RETURN_IF_ERROR(HandOut(request, places, response));
  return urgent || response->run_size() > 0 || response->acknowledged_size() > 0 ||
         response->health_checks_size() > 0 || draining_now ||
         std::any_of(response->cancel().begin(), response->cancel().end(),
                     [](const auto& cancel) { return cancel.reason() == "LEASE_LOST"; });
}

absl::Status Scheduler::HandOut(const gq::v1::SynchronizeRequest& request, int places,
                                gq::v1::SynchronizeResponse* response) {
  GQ_ASSIGN_OR_RETURN(const std::vector<QueuedStep> steps, ledger_.ListQueuedSteps());
  if (steps.empty()) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const auto usage, ledger_.ListUsage(clock_.Now() - times_.fair_share_window));
  GQ_ASSIGN_OR_RETURN(std::vector<BoardRecord> boards, ledger_.ListBoards(times_.online_within));
  std::vector<BoardRecord> elsewhere;
  for (const BoardRecord& board : boards) {
    if (board.board.agent() != request.agent_id()) elsewhere.push_back(board);
  }
  std::erase_if(
      boards, [&](const BoardRecord& board) { return board.board.agent() != request.agent_id(); });
  // Boards that fail less go first; a step avoids the board it failed on before.
  std::stable_sort(boards.begin(), boards.end(), [](const BoardRecord& a, const BoardRecord& b) {
    return a.board.consecutive_failures() < b.board.consecutive_failures();
  });
  const bool does_cpu = HasCapability(request, "cpu");
  for (const QueuedStep* step : ServingOrder(steps, usage, boards)) {
    if (places == 0) break;
    Claim claim{.job_id = step->job_id,
                .step_index = step->step_index,
                .agent = request.agent_id(),
                .session = request.session_id(),
                .ttl = times_.ttl};
    BoardRecord* chosen = nullptr;
    if (step->need.kind == NeedKind::kCpu) {
      if (!does_cpu) continue;
    } else {
      for (BoardRecord& board : boards) {
        if (!CanTakeNow(board, step->need, step->principal)) continue;
        if (chosen == nullptr || chosen->board.name() == step->last_board) chosen = &board;
      }
      if (chosen == nullptr) continue;
      // A step that failed here is left to the boards of other hosts for a while, busy ones too.
      if (chosen->board.name() == step->last_board && clock_.Now() - step->queued < kOthersFirst &&
          AnyBoardInSight(elsewhere, step->need)) {
        continue;
      }
      claim.board = chosen->board.name();
      claim.exclusive = step->need.kind == NeedKind::kExec;
    }
    const absl::StatusOr<LeaseRecord> lease = ledger_.ClaimStep(claim);
    if (!lease.ok()) {
      // Somebody cancelled the job, or the board is busy after all.
      if (base::GetReason(lease.status()) == Reason::kBoardBusy) continue;
      return lease.status();
    }
    if (chosen != nullptr && claim.exclusive) chosen->board.set_job_id(step->job_id);
    spdlog::info("step handed out job={} step={} attempt={} lease={} agent={} board={}",
                 lease->job_id, lease->step_index, lease->attempt, lease->key.lease_id,
                 lease->agent, lease->board);
    GQ_ASSIGN_OR_RETURN(*response->add_run(), ledger_.LoadLease(lease->key.lease_id));
    hub_.Publish(JobTopic(lease->job_id));
    if (claim.exclusive) hub_.Publish(kBoardsTopic);
    --places;
  }
  return absl::OkStatus();
}

void Scheduler::NoteProgress(const gq::v1::SynchronizeRequest& request) {
  for (const gq::v1::LeaseReport& report : request.leases()) {
    if (!report.has_progress() || report.phase() == gq::v1::LEASE_PHASE_ENDED) continue;
    const auto lease = ledger_.CheckLease({report.lease_id(), report.generation()});
    if (!lease.ok()) continue;
    {
      absl::MutexLock lock(&mutex_);
      JobProgress& entry = progress_[lease->job_id];
      if (entry.step_index == lease->step_index &&
          entry.progress.SerializeAsString() == report.progress().SerializeAsString()) {
        continue;
      }
      entry = {lease->step_index, report.progress()};
    }
    hub_.Publish(JobTopic(lease->job_id));
  }
}

void Scheduler::AttemptsEnded(const std::vector<LeaseRecord>& leases) {
  for (const LeaseRecord& lease : leases) {
    spdlog::warn("attempt lost job={} attempt={} lease={} agent={} board={}", lease.job_id,
                 lease.attempt, lease.key.lease_id, lease.agent, lease.board);
    {
      absl::MutexLock lock(&mutex_);
      told_to_stop_.erase(lease.key.lease_id);
    }
    AttemptEnded(lease.job_id, lease.attempt);
  }
}

void Scheduler::AttemptEnded(std::string_view job_id, int attempt) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto entry = progress_.find(job_id); entry != progress_.end()) {
      progress_.erase(entry);
    }
  }
  const int64_t size = logs_.Seal(job_id, attempt);
  const absl::Status sealed = ledger_.SealLog(job_id, attempt, size);
  if (!sealed.ok()) spdlog::error("log size not recorded job={}: {}", job_id, sealed.ToString());
  hub_.Publish(JobTopic(job_id));
  hub_.Publish(LogTopic(job_id));
  hub_.Publish(kQueueTopic);
  hub_.Publish(kBoardsTopic);
}

absl::Status Scheduler::AgentExited(std::string_view agent, std::string_view how, bool counts) {
  const gq::v1::Failure failure = MakeFailure(counts ? Reason::kWorkerLost : Reason::kDraining,
                                              StrCat("'", agent, "' ended: ", how));
  GQ_ASSIGN_OR_RETURN(const auto ended, ledger_.EndAgent(agent, failure));
  AttemptsEnded(ended);
  hub_.Publish(kBoardsTopic);
  return absl::OkStatus();
}

void Scheduler::Sweep() {
  const auto expired = ledger_.ExpireLeases(times_.grace);
  if (expired.ok()) {
    AttemptsEnded(*expired);
    if (sweep_failed_.exchange(false)) spdlog::info("leases are checked again");
  } else if (!sweep_failed_.exchange(true)) {
    // Once a failure, not once a second: the log may lie on the same full disk.
    spdlog::error("leases cannot be checked until this ends: {}", expired.status().ToString());
  }
  const auto late = ledger_.ExpireQueuedSteps();
  if (late.ok()) {
    for (const std::string& job : *late) {
      hub_.Publish(JobTopic(job));
      hub_.Publish(LogTopic(job));
    }
  }
  StopOverdue();
  GiveUpHopeless();
  OfferAgain();
  Tidy();
}

// Wakes the agents for steps that other hosts left lying.
void Scheduler::OfferAgain() {
  const auto steps = ledger_.ListQueuedSteps();
  if (!steps.ok()) return;
  const bool any = std::any_of(steps->begin(), steps->end(), [&](const QueuedStep& step) {
    const absl::Duration age = clock_.Now() - step.queued;
    return !step.last_board.empty() && age >= kOthersFirst && age < kOthersFirst + absl::Seconds(3);
  });
  if (any) hub_.Publish(kQueueTopic);
}

void Scheduler::Tidy() {
  {
    absl::MutexLock lock(&mutex_);
    if (tidied_ + kTidyInterval > clock_.Now()) return;
    tidied_ = clock_.Now();
  }
  const absl::Status status = ledger_.ForgetOldRecords(kRecordAge);
  if (!status.ok()) spdlog::error("old records not removed: {}", status.ToString());
}

void Scheduler::StopOverdue() {
  const auto leases = ledger_.ListLeases("");
  if (!leases.ok()) return;
  for (const LeaseRecord& lease : *leases) {
    if (lease.run_timeout <= absl::ZeroDuration() || !lease.cancel_reason.empty()) continue;
    if (lease.started + lease.run_timeout + kStopGrace > clock_.Now()) continue;
    if (ledger_.StopLease(lease.key, "TIMEOUT").ok()) hub_.Publish(AgentTopic(lease.agent));
  }
}

void Scheduler::GiveUpHopeless() {
  const auto steps = ledger_.ListQueuedSteps();
  const auto boards = ledger_.ListBoards(times_.online_within);
  if (!steps.ok() || !boards.ok()) return;
  const absl::Time now = clock_.Now();
  std::map<std::string, absl::Time, std::less<>> hopeless;
  std::vector<const QueuedStep*> given_up;
  {
    absl::MutexLock lock(&mutex_);
    for (const QueuedStep& step : *steps) {
      if (step.need.kind != NeedKind::kExec || step.waits_for_board) continue;
      if (AnyBoardInSight(*boards, step.need)) continue;
      const auto known = hopeless_.find(step.job_id);
      const absl::Time since = known == hopeless_.end() ? now : known->second;
      hopeless[step.job_id] = since;
      if (now - since >= times_.board_gone) given_up.push_back(&step);
    }
    hopeless_ = std::move(hopeless);
  }
  for (const QueuedStep* step : given_up) {
    gq::v1::Failure failure = MakeFailure(
        Reason::kNoEligibleBoard, "the last board that fits is offline or in bad health",
        "`gq jobs retry` runs the board step alone when one is back");
    // At submit it is the user's; now it is ours.
    failure.set_failure_class(gq::v1::FAILURE_CLASS_PLATFORM);
    const auto done = ledger_.GiveUpStep(step->job_id, step->step_index, failure);
    if (!done.ok() || !*done) continue;
    hub_.Publish(JobTopic(step->job_id));
    hub_.Publish(LogTopic(step->job_id));
  }
}

void Scheduler::StartDraining() {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  hub_.Publish(kQueueTopic);
}

bool Scheduler::draining() {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

bool Scheduler::IsLocal(std::string_view agent) {
  absl::MutexLock lock(&mutex_);
  return local_agents_.find(agent) != local_agents_.end();
}

int Scheduler::LocalLeases() {
  const auto leases = ledger_.ListLeases("");
  if (!leases.ok()) return 0;
  return static_cast<int>(std::count_if(leases->begin(), leases->end(),
                                        [&](const LeaseRecord& l) { return IsLocal(l.agent); }));
}

void Scheduler::JobChanged(const gq::v1::Job& job) {
  hub_.Publish(JobTopic(job.id()));
  hub_.Publish(LogTopic(job.id()));
  if (job.state() == gq::v1::JOB_STATE_QUEUED) hub_.Publish(kQueueTopic);
  if (job.state() != gq::v1::JOB_STATE_CANCELLING) return;
  const auto leases = ledger_.ListLeases("");
  if (!leases.ok()) return;
  for (const LeaseRecord& lease : *leases) {
    if (lease.job_id == job.id()) hub_.Publish(AgentTopic(lease.agent));
  }
}

void Scheduler::BoardsChanged() {
  hub_.Publish(kBoardsTopic);
  hub_.Publish(kQueueTopic);
}

}  // namespace gq::server
