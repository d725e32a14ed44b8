// Opening, migration, backup, and jobs.
#include "server/ledger/sqlite_ledger.h"

#include <system_error>
#include <utility>

#include "SQLiteCpp/Exception.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "nlohmann/json.hpp"
#include "server/ledger/enum_text.h"
#include "server/ledger/job_rows.h"
#include "server/ledger/schema.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr int kReaders = 4;

absl::Status CannotOpen(const std::filesystem::path& file, std::string_view why) {
  return MakeError(Reason::kLedgerFailed,
                   StrCat("the ledger '", file.string(), "' cannot be opened: ", why),
                   "restore the latest backup, or give another data folder with --data");
}

int64_t Pragma(Connection& db, const std::string& name) {
  Query query = db.Prepare("PRAGMA " + name);
  return query.Next() ? query.Int(0) : 0;
}

void CopyBeforeMigration(Connection& db, const std::filesystem::path& file, int64_t version) {
  const std::filesystem::path folder = file.parent_path() / "backups";
  std::filesystem::create_directories(folder);
  const std::filesystem::path copy =
      folder / StrCat(file.stem().string(), "-version-", version, ".db");
  std::filesystem::remove(copy);
  db.Prepare("VACUUM INTO ?").Bind(copy.string()).Run();
}

absl::Status Migrate(Connection& db, const std::filesystem::path& file) {
  const int64_t version = Pragma(db, "user_version");
  const int64_t application = Pragma(db, "application_id");
  const auto latest = static_cast<int64_t>(Migrations().size());
  const int64_t tables = [&db] {
    Query query = db.Prepare("SELECT COUNT(*) FROM sqlite_schema");
    return query.Next() ? query.Int(0) : 0;
  }();
  if (tables > 0 && application != kApplicationId) {
    return CannotOpen(file, "it is an SQLite file, but not a ledger of gq");
  }
  if (version > latest) {
    return MakeError(Reason::kLedgerTooNew,
                     StrCat("the ledger '", file.string(), "' has version ", version,
                            ", this gq-server knows versions up to ", latest),
                     "start the gq-server that wrote it, or a later one");
  }
  if (version == latest) return absl::OkStatus();
  if (version > 0) CopyBeforeMigration(db, file, version);
  for (int64_t i = version; i < latest; ++i) {
    db.Execute("BEGIN IMMEDIATE");
    db.Execute(std::string(Migrations()[i]));
    db.Execute(StrCat("PRAGMA user_version = ", i + 1));
    db.Execute(StrCat("PRAGMA application_id = ", kApplicationId));
    db.Execute("COMMIT");
  }
  Query query = db.Prepare("PRAGMA foreign_key_check");
  if (query.Next()) return CannotOpen(file, "rows refer to rows that are not there");
  return absl::OkStatus();
}

void InsertStep(Connection& db, const std::string& job_id, int index, const StepPlan& step,
                const NewJob& job) {
  const auto& limit = job.spec.queue_timeout();
  db.Prepare(
        "INSERT INTO step (job_id, idx, kind, title, state, need, device, scheme, board, tags,"
        " priority, principal, queue_limit_us, waits_for_board) VALUES (?, ?, ?, ?, 'WAITING', ?, "
        "?,"
        " ?, ?, ?, ?, ?, ?, ?)")
      .Bind(job_id, index, static_cast<int>(step.kind), step.title)
      .Bind(step.need.kind == NeedKind::kCpu       ? "cpu"
            : step.need.kind == NeedKind::kCompile ? "compile"
                                                   : "exec")
      .Bind(step.need.device, step.need.scheme, step.need.board,
            nlohmann::json(step.need.tags).dump(), job.spec.priority(), job.actor.principal,
            limit.seconds() * 1'000'000 + limit.nanos() / 1000, job.spec.wait_for_board())
      .Run();
}

absl::Status ReferToBlobs(Connection& db, absl::Time now, const std::string& job_id,
                          const NewJob& job) {
  for (const gq::v1::Digest& digest : job.blobs) {
    Query query = db.Prepare(
        "UPDATE blob SET touched_us = ? WHERE sha256 = ? AND size = ? AND EXISTS (SELECT 1 FROM"
        " blob_owner o WHERE o.sha256 = blob.sha256 AND o.principal = ?)");
    query.Bind(ToMicros(now), digest.sha256(), digest.size_bytes(), job.actor.principal);
    if (query.Run() == 0) {
      return MakeError(Reason::kBlobMissing,
                       StrCat("the job refers to content that was not uploaded: ", digest.sha256()),
                       "upload it first; FindMissingBlobs tells what is missing");
    }
    db.Prepare("INSERT OR IGNORE INTO job_blob (job_id, sha256) VALUES (?, ?)")
        .Bind(job_id, digest.sha256())
        .Run();
  }
  return absl::OkStatus();
}

absl::StatusOr<gq::v1::Job> Submitted(Connection& db, std::string_view principal,
                                      std::string_view request_id, std::string_view digest) {
  std::string job_id;
  {
    Query query = db.Prepare(
        "SELECT digest, job_id FROM submit_request WHERE principal = ? AND request_id = ?");
    query.Bind(principal, request_id);
    if (!query.Next()) return MakeError(Reason::kNotFound, "no such request");
    if (query.Text(0) != digest) {
      return MakeError(Reason::kRequestIdReused,
                       StrCat("request_id ", request_id, " was used for another job before"),
                       "choose a new UUID for every new job");
    }
    job_id = query.Text(1);
  }
  return LoadJob(db, job_id, true);
}

}  // namespace

ReaderPool::ReaderPool(const std::string& path, int size) {
  for (int i = 0; i < size; ++i) {
    free_.push_back(std::make_unique<Connection>(path, Connection::Mode::kRead));
  }
}

absl::Status ReaderPool::Run(const std::function<absl::Status(Connection&)>& read) {
  std::unique_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::vector<std::unique_ptr<Connection>>* free) { return !free->empty(); }, &free_));
    connection = std::move(free_.back());
    free_.pop_back();
  }
  absl::Status status;
  try {
    connection->Execute("BEGIN");
    status = read(*connection);
    connection->Execute("COMMIT");
  } catch (const std::exception& error) {
    status =
        MakeError(Reason::kLedgerFailed, StrCat("the ledger file cannot be read: ", error.what()),
                  "check the disk of the data folder");
    try {
      connection->Execute("ROLLBACK");
    } catch (const SQLite::Exception&) {
      // The failed statement has already ended the transaction.
    }
  }
  absl::MutexLock lock(&mutex_);
  free_.push_back(std::move(connection));
  return status;
}

absl::StatusOr<std::unique_ptr<SqliteLedger>> SqliteLedger::Open(const std::filesystem::path& file,
                                                                 const base::Clock& clock,
                                                                 FaultPoint fault_point) {
  try {
    auto writer = std::make_unique<Connection>(file.string(), Connection::Mode::kWrite);
    GQ_RETURN_IF_ERROR(Migrate(*writer, file));
    return std::unique_ptr<SqliteLedger>(
        new SqliteLedger(file, std::move(writer), clock, std::move(fault_point)));
  } catch (const SQLite::Exception& error) {
    return CannotOpen(file, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return CannotOpen(file, error.what());
  }
}

SqliteLedger::SqliteLedger(const std::filesystem::path& file, std::unique_ptr<Connection> writer,
                           const base::Clock& clock, FaultPoint fault_point)
    : clock_(clock),
      readers_(file.string(), kReaders),
      writer_(std::move(writer), std::move(fault_point)) {}

absl::StatusOr<gq::v1::Job> SqliteLedger::CreateJob(const NewJob& job) {
  return Write<gq::v1::Job>([&](Connection& db) -> absl::StatusOr<gq::v1::Job> {
    const absl::Time now = Now();
    if (!job.request_id.empty()) {
      absl::StatusOr<gq::v1::Job> earlier =
          Submitted(db, job.actor.principal, job.request_id, job.request_digest);
      if (earlier.ok() || base::GetReason(earlier.status()) != Reason::kNotFound) return earlier;
    }
    EnsurePrincipal(db, now, job.actor.principal);
    const std::string id = ids_.Next(now);
    const std::string spec = job.spec.SerializeAsString();
    db.Prepare(
          "INSERT INTO job (id, principal, name, state, visibility, spec, created_us)"
          " VALUES (?, ?, ?, 'QUEUED', ?, ?, ?)")
        .Bind(id, job.actor.principal, job.spec.name(),
              job.spec.visibility() == "team" ? "team" : "private", Bytes{spec}, ToMicros(now))
        .Run();
    for (const auto& [key, value] : job.spec.label()) {
      db.Prepare("INSERT INTO job_label (job_id, key, value) VALUES (?, ?, ?)")
          .Bind(id, key, value)
          .Run();
    }
    for (size_t i = 0; i < job.steps.size(); ++i) {
      InsertStep(db, id, static_cast<int>(i), job.steps[i], job);
    }
    GQ_RETURN_IF_ERROR(ReferToBlobs(db, now, id, job));
    if (!job.request_id.empty()) {
      db.Prepare(
            "INSERT INTO submit_request (principal, request_id, digest, job_id, created_us)"
            " VALUES (?, ?, ?, ?, ?)")
          .Bind(job.actor.principal, job.request_id, job.request_digest, id, ToMicros(now))
          .Run();
    }
    QueueStep(db, now, id, 0);
    AppendEvent(db, now, id, {0, gq::v1::STEP_STATE_QUEUED, 0, "submitted"});
    Audit(db, now, job.actor, id, job.spec.note());
    return LoadJob(db, id, true);
  });
}

absl::StatusOr<gq::v1::Job> SqliteLedger::FindSubmitted(std::string_view principal,
                                                        std::string_view request_id,
                                                        std::string_view request_digest) {
  return Read<gq::v1::Job>(
      [&](Connection& db) { return Submitted(db, principal, request_id, request_digest); });
}

absl::StatusOr<gq::v1::Job> SqliteLedger::GetJob(std::string_view id) {
  return Read<gq::v1::Job>([&](Connection& db) { return LoadJob(db, id, true); });
}

absl::StatusOr<gq::v1::Job> SqliteLedger::RequestCancel(const Actor& actor, std::string_view job_id,
                                                        std::string_view reason) {
  return Write<gq::v1::Job>([&](Connection& db) -> absl::StatusOr<gq::v1::Job> {
    const absl::Time now = Now();
    const std::optional<JobHead> job = LoadJobHead(db, job_id);
    if (!job) return JobNotFound(job_id);
    if (IsFinal(job->state)) {
      return MakeError(Reason::kJobFinished, StrCat("job ", job_id, " has already ended (",
                                                    JobStateText(job->state), ")"));
    }
    if (job->state == gq::v1::JOB_STATE_CANCELLING) return LoadJob(db, job_id, true);
    db.Prepare(
          "UPDATE attempt SET stop_reason = 'CANCELLED' WHERE job_id = ? AND state = 'RUNNING'")
        .Bind(job_id)
        .Run();
    const std::string message =
        StrCat("cancelled by ", actor.principal, reason.empty() ? "" : ": ", reason);
    if (db.Changes() > 0) {
      SetJobState(db, now, job_id, gq::v1::JOB_STATE_CANCELLING);
    } else {
      CancelOpenSteps(db, job_id);
      SetJobState(db, now, job_id, gq::v1::JOB_STATE_CANCELLED);
    }
    AppendEvent(db, now, job_id, {.message = message});
    Audit(db, now, actor, job_id, reason);
    return LoadJob(db, job_id, true);
  });
}

absl::StatusOr<gq::v1::Job> SqliteLedger::RetryJob(const Actor& actor, std::string_view job_id) {
  return Write<gq::v1::Job>([&](Connection& db) -> absl::StatusOr<gq::v1::Job> {
    const absl::Time now = Now();
    const std::optional<JobHead> job = LoadJobHead(db, job_id);
    if (!job) return JobNotFound(job_id);
    if (job->state == gq::v1::JOB_STATE_SUCCEEDED) {
      return MakeError(Reason::kJobFinished, StrCat("job ", job_id, " has succeeded"),
                       "only failed and cancelled jobs can be tried again");
    }
    if (!IsFinal(job->state)) {
      return MakeError(Reason::kJobNotFinished, StrCat("job ", job_id, " has not ended yet"));
    }
    int first = -1;
    {
      Query query = db.Prepare(
          "SELECT MIN(idx) FROM step WHERE job_id = ? AND state IN ('FAILED', 'CANCELLED')");
      query.Bind(job_id);
      if (query.Next() && !query.IsNull(0)) first = static_cast<int>(query.Int(0));
    }
    if (first < 0) {
      // The step that could not take place was left out; it is the last one.
      Query query = db.Prepare("SELECT MAX(idx) FROM step WHERE job_id = ?");
      query.Bind(job_id);
      if (query.Next()) first = static_cast<int>(query.Int(0));
    }
    db.Prepare(
          "UPDATE step SET state = 'WAITING', skip_reason = '', failures = 0, losses = 0,"
          " last_failure = '', last_board = '' WHERE job_id = ? AND idx >= ?")
        .Bind(job_id, first)
        .Run();
    db.Prepare("UPDATE job SET state = 'QUEUED', failure = NULL, ended_us = NULL WHERE id = ?")
        .Bind(job_id)
        .Run();
    QueueStep(db, now, job_id, first);
    AppendEvent(db, now, job_id,
                {first, gq::v1::STEP_STATE_QUEUED, 0, StrCat("retried by ", actor.principal)});
    Audit(db, now, actor, job_id, "");
    return LoadJob(db, job_id, true);
  });
}

absl::Status SqliteLedger::DeleteJob(const Actor& actor, std::string_view job_id) {
  return writer_.Apply([&](Connection& db) -> absl::Status {
    const std::optional<JobHead> job = LoadJobHead(db, job_id);
    if (!job) return JobNotFound(job_id);
    if (!IsFinal(job->state)) {
      return MakeError(Reason::kJobNotFinished, StrCat("job ", job_id, " has not ended yet"),
                       "cancel it first");
    }
    db.Prepare("DELETE FROM submit_request WHERE job_id = ?").Bind(job_id).Run();
    db.Prepare("DELETE FROM job WHERE id = ?").Bind(job_id).Run();
    Audit(db, Now(), actor, job_id, "");
    return absl::OkStatus();
  });
}

absl::StatusOr<int64_t> SqliteLedger::Epoch() {
  return Read<int64_t>([](Connection& db) -> absl::StatusOr<int64_t> {
    Query query = db.Prepare("SELECT value FROM meta WHERE key = 'epoch'");
    return query.Next() ? query.Int(0) : 0;
  });
}

absl::Status SqliteLedger::ForgetOldRecords(absl::Duration age) {
  return writer_.Apply([&](Connection& db) {
    const int64_t before = ToMicros(Now() - age);
    db.Prepare("DELETE FROM submit_request WHERE created_us < ?").Bind(before).Run();
    db.Prepare(
          "DELETE FROM agent_session WHERE started_us < ? AND NOT EXISTS (SELECT 1 FROM agent a "
          "WHERE"
          " a.id = agent_session.agent AND a.session = agent_session.session)")
        .Bind(before)
        .Run();
    return absl::OkStatus();
  });
}

absl::Status SqliteLedger::CheckWritable() {
  return writer_.Apply([](Connection&) { return absl::OkStatus(); });
}

absl::StatusOr<int64_t> SqliteLedger::Backup(const Actor& actor, std::string_view path) {
  const std::filesystem::path target(path);
  std::error_code error;
  if (std::filesystem::exists(target, error)) {
    return MakeError(Reason::kAlreadyExists, StrCat("the file '", path, "' exists"),
                     "give a file that does not exist");
  }
  absl::Status status = writer_.RunAlone([&](Connection& db) -> absl::Status {
    try {
      db.Prepare("VACUUM INTO ?").Bind(path).Run();
    } catch (const SQLite::Exception& failure) {
      return MakeError(Reason::kFileUnwritable,
                       StrCat("the copy '", path, "' cannot be written: ", failure.what()));
    }
    return absl::OkStatus();
  });
  GQ_RETURN_IF_ERROR(status);
  GQ_RETURN_IF_ERROR(writer_.Apply([&](Connection& db) {
    Audit(db, Now(), actor, path, "");
    return absl::OkStatus();
  }));
  return static_cast<int64_t>(std::filesystem::file_size(target, error));
}

}  // namespace gq::server
