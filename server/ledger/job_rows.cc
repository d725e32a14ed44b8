#include "server/ledger/job_rows.h"

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/ledger/enum_text.h"

namespace gq::server {

using base::StrCat;

void SetTimestamp(int64_t micros, google::protobuf::Timestamp* timestamp) {
  timestamp->set_seconds(micros / 1'000'000);
  timestamp->set_nanos(static_cast<int32_t>(micros % 1'000'000) * 1000);
}

const char kJobColumns[] =
    "id, principal, state, spec, failure, verdict, created_us, started_us, ended_us, last_event";

gq::v1::Job JobFromRow(Query& query) {
  gq::v1::Job job;
  job.set_id(query.Text(0));
  job.set_principal(query.Text(1));
  job.set_state(JobStateFromText(query.Text(2)));
  job.mutable_spec()->ParseFromString(query.Text(3));
  if (!query.IsNull(4)) job.mutable_failure()->ParseFromString(query.Text(4));
  job.set_verdict(static_cast<gq::v1::Verdict>(query.Int(5)));
  SetTimestamp(query.Int(6), job.mutable_create_time());
  if (!query.IsNull(7)) SetTimestamp(query.Int(7), job.mutable_start_time());
  if (!query.IsNull(8)) SetTimestamp(query.Int(8), job.mutable_end_time());
  job.set_last_event(query.Int(9));
  return job;
}

void LoadSteps(Connection& db, bool with_attempts, gq::v1::Job* job) {
  {
    Query query = db.Prepare(
        "SELECT idx, kind, title, state, skip_reason FROM step WHERE job_id = ? ORDER BY idx");
    query.Bind(job->id());
    while (query.Next()) {
      gq::v1::Step* step = job->add_steps();
      step->set_index(static_cast<int>(query.Int(0)));
      step->set_kind(static_cast<gq::v1::StepKind>(query.Int(1)));
      step->set_title(query.Text(2));
      step->set_state(StepStateFromText(query.Text(3)));
      step->set_skip_reason(query.Text(4));
    }
  }
  if (!with_attempts) return;
  Query query = db.Prepare(
      "SELECT a.number, a.step_idx, a.agent, a.board, a.state, a.failure, a.started_us, a.ended_us,"
      " COALESCE(l.size, 0) FROM attempt a LEFT JOIN log_segment l"
      " ON l.job_id = a.job_id AND l.attempt = a.number WHERE a.job_id = ? ORDER BY a.number");
  query.Bind(job->id());
  while (query.Next()) {
    gq::v1::Attempt* attempt = job->mutable_steps(static_cast<int>(query.Int(1)))->add_attempts();
    attempt->set_number(static_cast<int>(query.Int(0)));
    attempt->set_agent(query.Text(2));
    attempt->set_board(query.Text(3));
    attempt->set_state(AttemptStateFromText(query.Text(4)));
    if (!query.IsNull(5)) attempt->mutable_failure()->ParseFromString(query.Text(5));
    SetTimestamp(query.Int(6), attempt->mutable_start_time());
    if (!query.IsNull(7)) SetTimestamp(query.Int(7), attempt->mutable_end_time());
    attempt->set_log_size(query.Int(8));
  }
}

absl::StatusOr<gq::v1::Job> LoadJob(Connection& db, std::string_view id, bool with_attempts) {
  gq::v1::Job job;
  {
    Query query = db.Prepare(StrCat("SELECT ", kJobColumns, " FROM job WHERE id = ?"));
    query.Bind(id);
    if (!query.Next()) return JobNotFound(id);
    job = JobFromRow(query);
  }
  LoadSteps(db, with_attempts, &job);
  return job;
}

std::vector<LeaseRecord> LoadLeases(Connection& db, std::string_view condition,
                                    const std::vector<std::string>& parameters) {
  Query query = db.Prepare(
      StrCat("SELECT a.lease_id, a.generation, a.job_id, a.step_idx, a.number, a.agent, a.session,"
             " a.board, a.confirmed, a.stop_reason, a.started_us, a.expires_us, j.spec"
             " FROM attempt a JOIN job j ON j.id = a.job_id WHERE a.state = 'RUNNING' AND ",
             condition, " ORDER BY a.lease_id"));
  for (const std::string& parameter : parameters) query.Bind(parameter);
  std::vector<LeaseRecord> leases;
  while (query.Next()) {
    LeaseRecord& lease = leases.emplace_back();
    lease.key = {query.Text(0), query.Int(1)};
    lease.job_id = query.Text(2);
    lease.step_index = static_cast<int>(query.Int(3));
    lease.attempt = static_cast<int>(query.Int(4));
    lease.agent = query.Text(5);
    lease.session = query.Text(6);
    lease.board = query.Text(7);
    lease.confirmed = query.Int(8) != 0;
    lease.cancel_reason = query.Text(9);
    lease.started = FromMicros(query.Int(10));
    lease.expires = FromMicros(query.Int(11));
    gq::v1::JobSpec spec;
    spec.ParseFromString(query.Text(12));
    lease.run_timeout =
        absl::Seconds(spec.run_timeout().seconds()) + absl::Nanoseconds(spec.run_timeout().nanos());
  }
  return leases;
}

std::optional<JobHead> LoadJobHead(Connection& db, std::string_view id) {
  Query query = db.Prepare("SELECT state, principal FROM job WHERE id = ?");
  query.Bind(id);
  if (!query.Next()) return std::nullopt;
  return JobHead{JobStateFromText(query.Text(0)), query.Text(1)};
}

absl::Status JobNotFound(std::string_view id) {
  return base::MakeError(base::Reason::kNotFound, StrCat("there is no job '", id, "'"),
                         "`gq jobs list` shows the jobs");
}

void AppendEvent(Connection& db, absl::Time now, std::string_view job_id, const EventNote& note) {
  db.Prepare("UPDATE job SET last_event = last_event + 1 WHERE id = ?").Bind(job_id).Run();
  Query query = db.Prepare("SELECT last_event, state FROM job WHERE id = ?");
  query.Bind(job_id);
  if (!query.Next()) return;
  db.Prepare(
        "INSERT INTO job_event (job_id, seq, time_us, job_state, step_idx, step_state, attempt,"
        " message) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      .Bind(job_id, query.Int(0), ToMicros(now), static_cast<int>(JobStateFromText(query.Text(1))),
            note.step_index, static_cast<int>(note.step_state), note.attempt, note.message)
      .Run();
}

void SetJobState(Connection& db, absl::Time now, std::string_view job_id, gq::v1::JobState state) {
  db.Prepare("UPDATE job SET state = ? WHERE id = ?").Bind(JobStateText(state), job_id).Run();
  if (IsFinal(state)) {
    db.Prepare("UPDATE job SET ended_us = ? WHERE id = ?").Bind(ToMicros(now), job_id).Run();
  }
}

void SetJobFailure(Connection& db, std::string_view job_id, const gq::v1::Failure& failure) {
  const std::string bytes = failure.SerializeAsString();
  db.Prepare("UPDATE job SET failure = ? WHERE id = ?").Bind(Bytes{bytes}, job_id).Run();
}

void SetStepState(Connection& db, std::string_view job_id, int step, gq::v1::StepState state) {
  db.Prepare("UPDATE step SET state = ? WHERE job_id = ? AND idx = ?")
      .Bind(StepStateText(state), job_id, step)
      .Run();
}

void QueueStep(Connection& db, absl::Time now, std::string_view job_id, int step) {
  db.Prepare("UPDATE step SET state = 'QUEUED', queued_us = ? WHERE job_id = ? AND idx = ?")
      .Bind(ToMicros(now), job_id, step)
      .Run();
}

void SkipStep(Connection& db, std::string_view job_id, int step, std::string_view reason) {
  db.Prepare("UPDATE step SET state = 'SKIPPED', skip_reason = ? WHERE job_id = ? AND idx = ?")
      .Bind(reason, job_id, step)
      .Run();
}

void CancelOpenSteps(Connection& db, std::string_view job_id) {
  db.Prepare(
        "UPDATE step SET state = 'CANCELLED' WHERE job_id = ? AND state IN ('WAITING', 'QUEUED',"
        " 'RUNNING')")
      .Bind(job_id)
      .Run();
}

void CountBoardOutcome(Connection& db, absl::Time now, std::string_view board, bool failed,
                       std::string_view detail) {
  if (board.empty()) return;
  if (!failed) {
    db.Prepare("UPDATE board SET failures = 0 WHERE name = ? AND failures > 0").Bind(board).Run();
    return;
  }
  // Three in a row ask for a health check.
  db.Prepare(
        "UPDATE board SET failures = failures + 1, check_due = (check_due OR failures >= 2)"
        " WHERE name = ?")
      .Bind(board)
      .Run();
  db.Prepare("INSERT INTO board_event (board, time_us, kind, detail) VALUES (?, ?, 'failure', ?)")
      .Bind(board, ToMicros(now), detail)
      .Run();
}

void Audit(Connection& db, absl::Time now, const Actor& actor, std::string_view target,
           std::string_view detail) {
  db.Prepare(
        "INSERT INTO audit (time_us, principal, method, target, detail) VALUES (?, ?, ?, ?, ?)")
      .Bind(ToMicros(now), actor.principal, actor.method, target, detail)
      .Run();
}

void EnsurePrincipal(Connection& db, absl::Time now, std::string_view name) {
  db.Prepare("INSERT OR IGNORE INTO principal (name, created_us) VALUES (?, ?)")
      .Bind(name, ToMicros(now))
      .Run();
}

}  // namespace gq::server
