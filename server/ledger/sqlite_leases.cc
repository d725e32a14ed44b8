// Steps that are ready, leases and their ends.
#include <algorithm>

#include "SQLiteCpp/Exception.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "nlohmann/json.hpp"
#include "server/ledger/enum_text.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/sqlite_ledger.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

absl::Status LeaseLost(const LeaseKey& key) {
  return MakeError(Reason::kLeaseLost,
                   StrCat("lease ", key.lease_id, " generation ", key.generation, " is over"),
                   "stop the work and drop its results");
}

gq::v1::Failure MakeFailure(Reason reason, std::string_view message, std::string_view hint) {
  gq::v1::Failure failure;
  failure.set_reason(std::string(base::ReasonName(reason)));
  failure.set_message(std::string(message));
  failure.set_hint(std::string(hint));
  failure.set_failure_class(reason == Reason::kTimeout ? gq::v1::FAILURE_CLASS_TIMEOUT
                                                       : gq::v1::FAILURE_CLASS_PLATFORM);
  return failure;
}

std::optional<LeaseRecord> FindLease(Connection& db, const LeaseKey& key) {
  std::vector<LeaseRecord> leases = LoadLeases(db, "a.lease_id = ?", {key.lease_id});
  if (leases.empty() || leases.front().key.generation != key.generation) return std::nullopt;
  return leases.front();
}

// Ends live leases as lost.
void EndLeases(Connection& db, absl::Time now, const std::vector<LeaseRecord>& leases,
               const gq::v1::Failure& failure) {
  for (const LeaseRecord& lease : leases) {
    if (!EndAttempt(db, now, lease, gq::v1::ATTEMPT_STATE_LOST, &failure, /*reported=*/false)) {
      continue;
    }
    if (failure.reason() != base::ReasonName(Reason::kDraining)) {
      CountBoardOutcome(db, now, lease.board, /*failed=*/true, failure.message());
    }
    MoveOn(db, now, lease, gq::v1::ATTEMPT_STATE_LOST, failure, "");
  }
}

absl::Status StoreArtifacts(Connection& db, absl::Time now, const LeaseRecord& lease,
                            const gq::v1::StepResult& result) {
  const std::optional<JobHead> job = LoadJobHead(db, lease.job_id);
  for (const gq::v1::Artifact& artifact : result.artifacts()) {
    const gq::v1::Digest& digest = artifact.digest();
    Query touch = db.Prepare("UPDATE blob SET touched_us = ? WHERE sha256 = ? AND size = ?");
    touch.Bind(ToMicros(now), digest.sha256(), digest.size_bytes());
    if (touch.Run() == 0) {
      return MakeError(Reason::kBlobMissing,
                       StrCat("the content of artifact '", artifact.path(), "' was not uploaded"),
                       "upload it before the result is reported");
    }
    db.Prepare(
          "INSERT OR REPLACE INTO artifact (job_id, path, step_idx, sha256, size, created_us)"
          " VALUES (?, ?, ?, ?, ?, ?)")
        .Bind(lease.job_id, artifact.path(), lease.step_index, digest.sha256(), digest.size_bytes(),
              ToMicros(now))
        .Run();
    db.Prepare("INSERT OR IGNORE INTO blob_owner (principal, sha256) VALUES (?, ?)")
        .Bind(job->principal, digest.sha256())
        .Run();
  }
  return absl::OkStatus();
}

void StoreReport(Connection& db, const LeaseRecord& lease, const gq::v1::StepResult& result) {
  if (!result.report_json().empty()) {
    db.Prepare("INSERT OR REPLACE INTO step_report (job_id, idx, json) VALUES (?, ?, ?)")
        .Bind(lease.job_id, lease.step_index, result.report_json())
        .Run();
  }
  if (result.verdict() != gq::v1::VERDICT_UNSPECIFIED) {
    db.Prepare("UPDATE job SET verdict = ? WHERE id = ?")
        .Bind(static_cast<int>(result.verdict()), lease.job_id)
        .Run();
  }
}

// The state and failure of an attempt as the ledger records them.
struct Outcome {
  gq::v1::AttemptState state;
  gq::v1::Failure failure;
};

Outcome Judge(const LeaseRecord& lease, const gq::v1::StepResult& result) {
  using enum gq::v1::AttemptState;
  if (result.state() == ATTEMPT_STATE_SUCCEEDED) return {ATTEMPT_STATE_SUCCEEDED, {}};
  if (lease.cancel_reason == base::ReasonName(Reason::kTimeout)) {
    return {ATTEMPT_STATE_FAILED,
            MakeFailure(Reason::kTimeout, "the step ran longer than its run time-out",
                        "allow more with --run-timeout")};
  }
  Outcome outcome{result.state(), result.failure()};
  if (outcome.state != ATTEMPT_STATE_FAILED && outcome.state != ATTEMPT_STATE_CANCELLED) {
    outcome.state = ATTEMPT_STATE_LOST;
  }
  if (outcome.failure.reason().empty()) {
    outcome.failure = MakeFailure(
        outcome.state == ATTEMPT_STATE_CANCELLED ? Reason::kCancelled : Reason::kWorkerLost,
        "the agent gave the step up without saying why", "");
  }
  return outcome;
}

}  // namespace

absl::StatusOr<std::vector<QueuedStep>> SqliteLedger::ListQueuedSteps() {
  return Read<std::vector<QueuedStep>>(
      [](Connection& db) -> absl::StatusOr<std::vector<QueuedStep>> {
        Query query = db.Prepare(
            "SELECT job_id, idx, need, device, scheme, board, tags, principal, priority, queued_us,"
            " failures + losses, last_board FROM step WHERE state = 'QUEUED' ORDER BY queued_us");
        std::vector<QueuedStep> steps;
        while (query.Next()) {
          QueuedStep& step = steps.emplace_back();
          step.job_id = query.Text(0);
          step.step_index = static_cast<int>(query.Int(1));
          const std::string need = query.Text(2);
          step.need.kind = need == "cpu"       ? NeedKind::kCpu
                           : need == "compile" ? NeedKind::kCompile
                                               : NeedKind::kExec;
          step.need.device = query.Text(3);
          step.need.scheme = query.Text(4);
          step.need.board = query.Text(5);
          if (const std::string tags = query.Text(6); tags != "[]") {
            step.need.tags = nlohmann::json::parse(tags).get<std::vector<std::string>>();
          }
          step.principal = query.Text(7);
          step.priority = static_cast<int>(query.Int(8));
          step.queued = FromMicros(query.Int(9));
          step.tries = static_cast<int>(query.Int(10));
          step.last_board = query.Text(11);
        }
        return steps;
      });
}

absl::StatusOr<std::vector<Usage>> SqliteLedger::ListUsage(absl::Time since) {
  return Read<std::vector<Usage>>([&](Connection& db) -> absl::StatusOr<std::vector<Usage>> {
    std::map<std::string, Usage> usage;
    {
      Query query = db.Prepare(
          "SELECT principal, COUNT(*) FROM attempt WHERE state = 'RUNNING' GROUP BY principal");
      while (query.Next()) usage[query.Text(0)].running = static_cast<int>(query.Int(1));
    }
    {
      Query query = db.Prepare(
          "SELECT principal, SUM(ended_us - started_us) FROM attempt WHERE ended_us > ?"
          " GROUP BY principal");
      query.Bind(ToMicros(since));
      while (query.Next()) {
        usage[query.Text(0)].recent_seconds = static_cast<double>(query.Int(1)) * 1e-6;
      }
    }
    std::vector<Usage> result;
    for (auto& [principal, entry] : usage) {
      entry.principal = principal;
      result.push_back(std::move(entry));
    }
    return result;
  });
}

absl::StatusOr<LeaseRecord> SqliteLedger::ClaimStep(const Claim& claim) {
  return Write<LeaseRecord>([&](Connection& db) -> absl::StatusOr<LeaseRecord> {
    const absl::Time now = Now();
    {
      Query query = db.Prepare("SELECT 1 FROM agent WHERE id = ? AND session = ?");
      query.Bind(claim.agent, claim.session);
      if (!query.Next()) return LeaseLost({claim.session, 0});
    }
    if (claim.exclusive) {
      Query query = db.Prepare(
          "SELECT 1 FROM attempt WHERE board = ? AND state = 'RUNNING' AND exclusive = 1");
      query.Bind(claim.board);
      if (query.Next()) {
        return MakeError(Reason::kBoardBusy, StrCat("board ", claim.board, " is in use"));
      }
    }
    int64_t generation = 0;
    std::string principal;
    {
      Query query = db.Prepare(
          "UPDATE step SET state = 'RUNNING', generation = generation + 1 WHERE job_id = ? AND"
          " idx = ? AND state = 'QUEUED' RETURNING generation, principal");
      query.Bind(claim.job_id, claim.step_index);
      if (!query.Next()) {
        return MakeError(Reason::kBoardBusy, StrCat("the step of job ", claim.job_id, " is taken"));
      }
      generation = query.Int(0);
      principal = query.Text(1);
    }
    int attempt = 0;
    {
      Query query = db.Prepare(
          "UPDATE job SET last_attempt = last_attempt + 1, state = 'RUNNING',"
          " started_us = COALESCE(started_us, ?) WHERE id = ? RETURNING last_attempt");
      query.Bind(ToMicros(now), claim.job_id);
      if (!query.Next()) return JobNotFound(claim.job_id);
      attempt = static_cast<int>(query.Int(0));
    }
    const std::string lease_id = ids_.Next(now);
    db.Prepare(
          "INSERT INTO attempt (job_id, number, step_idx, lease_id, generation, agent, session,"
          " principal, board, exclusive, state, started_us, expires_us)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'RUNNING', ?, ?)")
        .Bind(claim.job_id, attempt, claim.step_index, lease_id, generation, claim.agent,
              claim.session, principal, claim.board, claim.exclusive, ToMicros(now),
              ToMicros(now + claim.ttl))
        .Run();
    AppendEvent(db, now, claim.job_id,
                {claim.step_index, gq::v1::STEP_STATE_RUNNING, attempt,
                 claim.board.empty() ? StrCat("on ", claim.agent)
                                     : StrCat("on ", claim.agent, ", board ", claim.board)});
    const std::optional<LeaseRecord> lease = FindLease(db, {lease_id, generation});
    if (!lease) return LeaseLost({lease_id, generation});
    return *lease;
  });
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteLedger::ListLeases(std::string_view agent) {
  return Read<std::vector<LeaseRecord>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<LeaseRecord>> {
        if (agent.empty()) return LoadLeases(db, "1", {});
        return LoadLeases(db, "a.agent = ?", {std::string(agent)});
      });
}

absl::StatusOr<LeaseRecord> SqliteLedger::CheckLease(const LeaseKey& key) {
  return Read<LeaseRecord>([&](Connection& db) -> absl::StatusOr<LeaseRecord> {
    const std::optional<LeaseRecord> lease = FindLease(db, key);
    if (!lease) return LeaseLost(key);
    return *lease;
  });
}

absl::StatusOr<gq::v1::Lease> SqliteLedger::LoadLease(std::string_view lease_id) {
  return Read<gq::v1::Lease>([&](Connection& db) -> absl::StatusOr<gq::v1::Lease> {
    gq::v1::Lease lease;
    {
      Query query = db.Prepare(
          "SELECT a.lease_id, a.generation, a.job_id, a.step_idx, a.number, s.failures + s.losses,"
          " s.last_failure, s.kind, s.title, j.spec, a.board, (SELECT COUNT(*) FROM step t"
          " WHERE t.job_id = a.job_id) FROM attempt a JOIN job j ON j.id = a.job_id JOIN step s"
          " ON s.job_id = a.job_id AND s.idx = a.step_idx WHERE a.lease_id = ? AND"
          " a.state = 'RUNNING'");
      query.Bind(lease_id);
      if (!query.Next()) return LeaseLost({std::string(lease_id), 0});
      lease.set_lease_id(query.Text(0));
      lease.set_generation(query.Int(1));
      lease.set_job_id(query.Text(2));
      lease.set_step_index(static_cast<int>(query.Int(3)));
      lease.set_attempt(static_cast<int>(query.Int(4)));
      lease.set_try_number(static_cast<int>(query.Int(5)) + 1);
      lease.set_max_tries(std::max(kMaxTries, lease.try_number()));
      lease.set_last_failure(query.Text(6));
      lease.set_kind(static_cast<gq::v1::StepKind>(query.Int(7)));
      lease.set_title(query.Text(8));
      lease.mutable_spec()->ParseFromString(query.Text(9));
      lease.set_board(query.Text(10));
      lease.set_step_count(static_cast<int>(query.Int(11)));
      *lease.mutable_run_timeout() = lease.spec().run_timeout();
    }
    {
      Query query = db.Prepare(
          "SELECT path, sha256, size, step_idx, created_us FROM artifact WHERE job_id = ? AND"
          " step_idx < ? ORDER BY path");
      query.Bind(lease.job_id(), lease.step_index());
      while (query.Next()) {
        gq::v1::Artifact* artifact = lease.add_inputs();
        artifact->set_path(query.Text(0));
        artifact->mutable_digest()->set_sha256(query.Text(1));
        artifact->mutable_digest()->set_size_bytes(query.Int(2));
        artifact->set_step_index(static_cast<int>(query.Int(3)));
        SetTimestamp(query.Int(4), artifact->mutable_create_time());
      }
    }
    {
      Query query =
          db.Prepare("SELECT json FROM step_report WHERE job_id = ? AND idx < ? ORDER BY idx");
      query.Bind(lease.job_id(), lease.step_index());
      while (query.Next()) lease.add_earlier_reports(query.Text(0));
    }
    Query query = db.Prepare("SELECT data FROM iteration WHERE job_id = ? ORDER BY number");
    query.Bind(lease.job_id());
    while (query.Next()) {
      gq::v1::Iteration iteration;
      iteration.ParseFromString(query.Text(0));
      if (iteration.step_index() == lease.step_index()) *lease.add_iterations() = iteration;
    }
    return lease;
  });
}

absl::StatusOr<Completion> SqliteLedger::CompleteAttempt(const LeaseKey& key,
                                                         const gq::v1::StepResult& result) {
  return Write<Completion>([&](Connection& db) -> absl::StatusOr<Completion> {
    const absl::Time now = Now();
    Completion completion;
    const std::optional<LeaseRecord> lease = FindLease(db, key);
    if (!lease) {
      Query query = db.Prepare(
          "SELECT a.job_id, a.number, j.state FROM attempt a JOIN job j ON j.id = a.job_id WHERE"
          " a.lease_id = ? AND a.generation = ? AND a.reported = 1");
      query.Bind(key.lease_id, key.generation);
      if (!query.Next()) return LeaseLost(key);
      completion.duplicate = true;
      completion.job_id = query.Text(0);
      completion.attempt = static_cast<int>(query.Int(1));
      completion.job_state = JobStateFromText(query.Text(2));
      return completion;
    }
    const Outcome outcome = Judge(*lease, result);
    const bool succeeded = outcome.state == gq::v1::ATTEMPT_STATE_SUCCEEDED;
    // Only what a step finished counts, so that a later try starts from nothing.
    if (succeeded) {
      GQ_RETURN_IF_ERROR(StoreArtifacts(db, now, *lease, result));
      StoreReport(db, *lease, result);
    }
    EndAttempt(db, now, *lease, outcome.state, succeeded ? nullptr : &outcome.failure,
               /*reported=*/true);
    const bool board_failed = outcome.state == gq::v1::ATTEMPT_STATE_LOST ||
                              outcome.failure.reason() == base::ReasonName(Reason::kBoardFailed);
    if (succeeded || board_failed) {
      CountBoardOutcome(db, now, lease->board, board_failed, outcome.failure.message());
    }
    completion.queued_work =
        MoveOn(db, now, *lease, outcome.state, outcome.failure, result.skip_reason());
    completion.job_id = lease->job_id;
    completion.attempt = lease->attempt;
    completion.board = lease->board;
    completion.job_state = LoadJobHead(db, lease->job_id)->state;
    return completion;
  });
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteLedger::ExpireLeases(absl::Duration grace) {
  // Asked on a read connection first: mostly nothing has expired.
  const std::string limit = StrCat(ToMicros(Now() - grace));
  const auto expired = [&](Connection& db) {
    return LoadLeases(db, "a.expires_us < CAST(? AS INTEGER)", {limit});
  };
  absl::StatusOr<std::vector<LeaseRecord>> some = Read<std::vector<LeaseRecord>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<LeaseRecord>> { return expired(db); });
  if (!some.ok() || some->empty()) return some;
  return Write<std::vector<LeaseRecord>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<LeaseRecord>> {
        std::vector<LeaseRecord> leases = expired(db);
        EndLeases(db, Now(), leases,
                  MakeFailure(Reason::kWorkerLost, "nothing was heard of the agent in time",
                              "look at the agent's host"));
        return leases;
      });
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteLedger::EndAgent(std::string_view agent,
                                                                const gq::v1::Failure& failure) {
  return Write<std::vector<LeaseRecord>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<LeaseRecord>> {
        db.Prepare("UPDATE agent SET connected = 0 WHERE id = ?").Bind(agent).Run();
        std::vector<LeaseRecord> leases = LoadLeases(db, "a.agent = ?", {std::string(agent)});
        EndLeases(db, Now(), leases, failure);
        return leases;
      });
}

absl::Status SqliteLedger::StopLease(const LeaseKey& key, std::string_view reason) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    Query query = db.Prepare(
        "UPDATE attempt SET stop_reason = ? WHERE lease_id = ? AND generation = ? AND"
        " state = 'RUNNING' AND stop_reason = ''");
    query.Bind(reason, key.lease_id, key.generation);
    query.Run();
    return absl::OkStatus();
  });
}

absl::Status SqliteLedger::RecordIteration(const LeaseKey& key,
                                           const gq::v1::Iteration& iteration) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const absl::Time now = Now();
    const std::optional<LeaseRecord> lease = FindLease(db, key);
    if (!lease) return LeaseLost(key);
    gq::v1::Iteration stored = iteration;
    stored.set_step_index(lease->step_index);
    if (!stored.has_create_time()) SetTimestamp(ToMicros(now), stored.mutable_create_time());
    const std::string bytes = stored.SerializeAsString();
    Query query =
        db.Prepare("INSERT OR IGNORE INTO iteration (job_id, number, data) VALUES (?, ?, ?)");
    query.Bind(lease->job_id, stored.number(), Bytes{bytes});
    if (query.Run() == 1) {
      AppendEvent(db, now, lease->job_id,
                  {lease->step_index, gq::v1::STEP_STATE_RUNNING, lease->attempt,
                   StrCat("iteration ", stored.number(), ": ", stored.candidate(), ", ",
                          stored.decision())});
    }
    return absl::OkStatus();
  });
}

absl::Status SqliteLedger::SealLog(std::string_view job_id, int attempt, int64_t size) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    db.Prepare(
          "INSERT OR REPLACE INTO log_segment (job_id, attempt, size, sealed_us)"
          " SELECT job_id, number, ?, ? FROM attempt WHERE job_id = ? AND number = ?")
        .Bind(size, ToMicros(Now()), job_id, attempt)
        .Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteLedger::RecoverLeases(absl::Duration grace) {
  return Write<std::vector<LeaseRecord>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<LeaseRecord>> {
        const absl::Time now = Now();
        db.Execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'");
        db.Execute("UPDATE agent SET connected = 0 WHERE local = 1");
        std::vector<LeaseRecord> leases =
            LoadLeases(db, "a.agent IN (SELECT id FROM agent WHERE local = 1)", {});
        EndLeases(db, now, leases, MakeFailure(Reason::kDraining, "the server was restarted", ""));
        db.Prepare("UPDATE attempt SET expires_us = ? WHERE state = 'RUNNING'")
            .Bind(ToMicros(now + grace))
            .Run();
        return leases;
      });
}

absl::StatusOr<std::vector<std::string>> SqliteLedger::ExpireQueuedSteps() {
  const int64_t now_us = ToMicros(Now());
  struct Late {
    std::string job_id;
    int step;
    gq::v1::StepKind kind;
  };
  const auto find = [&](Connection& db) {
    Query query = db.Prepare(
        "SELECT job_id, idx, kind FROM step WHERE state = 'QUEUED' AND queue_limit_us > 0 AND"
        " queued_us + queue_limit_us < ?");
    query.Bind(now_us);
    std::vector<Late> late;
    while (query.Next()) {
      late.push_back({query.Text(0), static_cast<int>(query.Int(1)),
                      static_cast<gq::v1::StepKind>(query.Int(2))});
    }
    return late;
  };
  absl::StatusOr<std::vector<Late>> some = Read<std::vector<Late>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<Late>> { return find(db); });
  if (!some.ok()) return some.status();
  if (some->empty()) return std::vector<std::string>();
  return Write<std::vector<std::string>>(
      [&](Connection& db) -> absl::StatusOr<std::vector<std::string>> {
        std::vector<std::string> jobs;
        for (const Late& late : find(db)) {
          gq::v1::Failure failure = MakeFailure(
              Reason::kTimeout, "the step waited longer than its queue time-out",
              "allow more with --queue-timeout, or `gq jobs retry` when the boards are free");
          if (late.kind == gq::v1::STEP_KIND_BOARD_RUN) {
            SkipStep(db, late.job_id, late.step, failure.message());
          } else {
            SetStepState(db, late.job_id, late.step, gq::v1::STEP_STATE_FAILED);
          }
          CancelOpenSteps(db, late.job_id);
          SetJobFailure(db, late.job_id, failure);
          SetJobState(db, FromMicros(now_us), late.job_id, gq::v1::JOB_STATE_FAILED);
          AppendEvent(db, FromMicros(now_us), late.job_id,
                      {late.step, gq::v1::STEP_STATE_FAILED, 0, failure.message()});
          jobs.push_back(late.job_id);
        }
        return jobs;
      });
}

}  // namespace gq::server
