// Leases and their ends.
#include <algorithm>

#include "SQLiteCpp/Exception.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "server/ledger/enum_text.h"
#include "server/ledger/failure.h"
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
        // They start with the server, so its restarts are no sign of a fault of theirs.
        db.Execute(
            "UPDATE agent_session SET started_us = 0"
            " WHERE agent IN (SELECT id FROM agent WHERE local = 1)");
        std::vector<LeaseRecord> leases =
            LoadLeases(db, "a.agent IN (SELECT id FROM agent WHERE local = 1)", {});
        EndLeases(db, now, leases, MakeFailure(Reason::kDraining, "the server was restarted", ""));
        db.Prepare("UPDATE attempt SET expires_us = ? WHERE state = 'RUNNING'")
            .Bind(ToMicros(now + grace))
            .Run();
        return leases;
      });
}

}  // namespace gq::server
