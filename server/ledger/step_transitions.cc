// The end of an attempt and what follows from it; declared in job_rows.h.
#include <algorithm>
#include <array>

#include "common/base/reason.h"
#include "common/base/text.h"
#include "server/ledger/enum_text.h"
#include "server/ledger/failure.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/ledger.h"

namespace gq::server {
namespace {

using base::Reason;
using base::StrCat;

// Failures of the platform that another try may not meet again. What fails the same way everywhere
// (a missing tool, a crash of the engine on this input) is not among them.
bool WorthAnotherTry(const gq::v1::Failure& failure) {
  static constexpr std::array kReasons = {Reason::kBoardFailed, Reason::kBoardBusy,
                                          Reason::kServerUnreachable, Reason::kDiskFull,
                                          Reason::kOverloaded};
  const auto reason = base::ReasonFromName(failure.reason());
  return reason && std::find(kReasons.begin(), kReasons.end(), *reason) != kReasons.end();
}

struct StepRow {
  gq::v1::StepKind kind;
  std::string title;
  int failures;
  int losses;
};

StepRow LoadStep(Connection& db, std::string_view job_id, int step) {
  Query query =
      db.Prepare("SELECT kind, title, failures, losses FROM step WHERE job_id = ? AND idx = ?");
  query.Bind(job_id, step);
  query.Next();
  return {static_cast<gq::v1::StepKind>(query.Int(0)), query.Text(1),
          static_cast<int>(query.Int(2)), static_cast<int>(query.Int(3))};
}

gq::v1::Failure TriesExhausted(const StepRow& step, const gq::v1::Failure& last) {
  return MakeFailure(
      Reason::kAttemptsExhausted,
      StrCat(step.title, " was lost ", step.losses,
             " times, the last time because: ", last.message(), " (", last.reason(), ")"),
      "nothing is wrong with the input; `gq jobs retry` tries again");
}

// The job ends with the step.
void FailJob(Connection& db, absl::Time now, const LeaseRecord& lease,
             const gq::v1::Failure& failure) {
  SetStepState(db, lease.job_id, lease.step_index, gq::v1::STEP_STATE_FAILED);
  CancelOpenSteps(db, lease.job_id);
  SetJobFailure(db, lease.job_id, failure);
  SetJobState(db, now, lease.job_id, gq::v1::JOB_STATE_FAILED);
  AppendEvent(db, now, lease.job_id,
              {lease.step_index, gq::v1::STEP_STATE_FAILED, lease.attempt,
               StrCat(failure.message(), " (", failure.reason(), ")")});
}

struct PlannedSkip {
  int step;
  std::string reason;
};

// Leaves out the steps that are next and were marked so.
std::vector<PlannedSkip> LeaveOutPlanned(Connection& db, std::string_view job_id) {
  std::vector<PlannedSkip> skips;
  {
    Query query = db.Prepare(
        "SELECT idx, skip_reason FROM step WHERE job_id = ? AND state = 'WAITING' ORDER BY idx");
    query.Bind(job_id);
    while (query.Next() && !query.Text(1).empty()) {
      skips.push_back({static_cast<int>(query.Int(0)), query.Text(1)});
    }
  }
  for (const PlannedSkip& skip : skips) {
    SetStepState(db, job_id, skip.step, gq::v1::STEP_STATE_SKIPPED);
  }
  return skips;
}

// True when there is a next step, which is queued now; otherwise the job has succeeded.
bool FinishStep(Connection& db, absl::Time now, const LeaseRecord& lease,
                std::string_view skip_reason) {
  const bool skipped = !skip_reason.empty();
  const gq::v1::StepState state =
      skipped ? gq::v1::STEP_STATE_SKIPPED : gq::v1::STEP_STATE_SUCCEEDED;
  if (skipped) {
    SkipStep(db, lease.job_id, lease.step_index, skip_reason);
  } else {
    SetStepState(db, lease.job_id, lease.step_index, state);
  }
  const std::vector<PlannedSkip> left_out = LeaveOutPlanned(db, lease.job_id);
  int next = -1;
  {
    Query query = db.Prepare("SELECT MIN(idx) FROM step WHERE job_id = ? AND state = 'WAITING'");
    query.Bind(lease.job_id);
    if (query.Next() && !query.IsNull(0)) next = static_cast<int>(query.Int(0));
  }
  if (next < 0) SetJobState(db, now, lease.job_id, gq::v1::JOB_STATE_SUCCEEDED);
  AppendEvent(db, now, lease.job_id,
              {lease.step_index, state, lease.attempt,
               skipped ? StrCat("not run: ", skip_reason) : std::string()});
  for (const PlannedSkip& skip : left_out) {
    AppendEvent(db, now, lease.job_id,
                {skip.step, gq::v1::STEP_STATE_SKIPPED, 0, StrCat("not run: ", skip.reason)});
  }
  if (next < 0) return false;
  QueueStep(db, now, lease.job_id, next);
  AppendEvent(db, now, lease.job_id, {next, gq::v1::STEP_STATE_QUEUED, 0, ""});
  return true;
}

}  // namespace

bool EndAttempt(Connection& db, absl::Time now, const LeaseRecord& lease,
                gq::v1::AttemptState state, const gq::v1::Failure* failure, bool reported) {
  const std::string bytes = failure ? failure->SerializeAsString() : std::string();
  Query query = db.Prepare(
      "UPDATE attempt SET state = ?, failure = ?, reported = ?, ended_us = ?"
      " WHERE lease_id = ? AND generation = ? AND state = 'RUNNING'");
  query.Bind(AttemptStateText(state));
  if (failure) {
    query.Bind(Bytes{bytes});
  } else {
    query.Bind(nullptr);
  }
  query.Bind(reported, ToMicros(now), lease.key.lease_id, lease.key.generation);
  return query.Run() == 1;
}

bool MoveOn(Connection& db, absl::Time now, const LeaseRecord& lease, gq::v1::AttemptState state,
            const gq::v1::Failure& failure, std::string_view skip_reason) {
  const std::optional<JobHead> job = LoadJobHead(db, lease.job_id);
  if (!job || IsFinal(job->state)) return false;
  if (job->state == gq::v1::JOB_STATE_CANCELLING) {
    CancelOpenSteps(db, lease.job_id);
    SetJobState(db, now, lease.job_id, gq::v1::JOB_STATE_CANCELLED);
    AppendEvent(db, now, lease.job_id,
                {lease.step_index, gq::v1::STEP_STATE_CANCELLED, lease.attempt, "cancelled"});
    return false;
  }
  if (state == gq::v1::ATTEMPT_STATE_SUCCEEDED) return FinishStep(db, now, lease, skip_reason);

  const bool lost = state != gq::v1::ATTEMPT_STATE_FAILED;
  // Work that the service itself stopped, to stop or to restart, counts against nobody.
  const bool counts = failure.reason() != base::ReasonName(Reason::kDraining);
  db.Prepare(
        "UPDATE step SET failures = failures + ?, losses = losses + ?, last_failure = ?,"
        " last_board = ? WHERE job_id = ? AND idx = ?")
      .Bind(!lost, lost && counts, failure.reason(), lease.board, lease.job_id, lease.step_index)
      .Run();
  const StepRow step = LoadStep(db, lease.job_id, lease.step_index);
  if (lost && step.losses >= kMaxTries) {
    FailJob(db, now, lease, TriesExhausted(step, failure));
    return false;
  }
  if (!lost && (!WorthAnotherTry(failure) || step.failures >= kMaxTries)) {
    FailJob(db, now, lease, failure);
    return false;
  }
  QueueStep(db, now, lease.job_id, lease.step_index);
  AppendEvent(db, now, lease.job_id,
              {lease.step_index, gq::v1::STEP_STATE_QUEUED, lease.attempt,
               StrCat("another try: ", failure.message(), " (", failure.reason(), ")")});
  return true;
}

}  // namespace gq::server
