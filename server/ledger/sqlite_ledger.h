// The ledger in one SQLite file (WAL, synchronous=FULL): one writer thread with group commit, a few
// read-only connections.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "server/ledger/job_id.h"
#include "server/ledger/ledger.h"
#include "server/ledger/writer.h"

namespace gq::server {

// Read-only connections, lent to one caller at a time.
class ReaderPool {
 public:
  ReaderPool(const std::string& path, int size);

  // Runs `read` on one snapshot; waits for a free connection.
  absl::Status Run(const std::function<absl::Status(Connection&)>& read);

 private:
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> free_ ABSL_GUARDED_BY(mutex_);
};

class SqliteLedger : public Ledger {
 public:
  // Opens or makes the file. An older file is copied to `backups/` beside it and migrated. `clock`
  // outlives the ledger. Fails with kLedgerTooNew for a file of a later version, kLedgerFailed for
  // one that is not a ledger or is damaged.
  static absl::StatusOr<std::unique_ptr<SqliteLedger>> Open(const std::filesystem::path& file,
                                                            const base::Clock& clock,
                                                            FaultPoint fault_point = {});

  absl::StatusOr<gq::v1::Job> CreateJob(const NewJob& job) override;
  absl::StatusOr<gq::v1::Job> FindSubmitted(std::string_view principal, std::string_view request_id,
                                            std::string_view request_digest) override;
  absl::StatusOr<std::string> ResolveJobId(const Viewer& viewer, std::string_view id) override;
  absl::StatusOr<gq::v1::Job> GetJob(std::string_view id) override;
  absl::StatusOr<std::vector<gq::v1::Job>> ListJobs(const JobFilter& filter) override;
  absl::StatusOr<std::vector<gq::v1::JobEvent>> ListEvents(std::string_view job_id, int64_t from,
                                                           int limit) override;
  absl::StatusOr<gq::v1::Job> RequestCancel(const Actor& actor, std::string_view job_id,
                                            std::string_view reason) override;
  absl::StatusOr<gq::v1::Job> RetryJob(const Actor& actor, std::string_view job_id) override;
  absl::Status DeleteJob(const Actor& actor, std::string_view job_id) override;
  absl::Status PlanSkip(std::string_view job_id, int step_index, std::string_view reason) override;
  absl::StatusOr<bool> GiveUpStep(std::string_view job_id, int step_index,
                                  const gq::v1::Failure& failure) override;
  absl::StatusOr<std::vector<std::string>> ExpireQueuedSteps() override;
  absl::StatusOr<std::vector<gq::v1::Iteration>> ListIterations(std::string_view job_id, int after,
                                                                int limit) override;
  absl::StatusOr<std::vector<gq::v1::Artifact>> ListArtifacts(std::string_view job_id) override;
  absl::StatusOr<std::map<int, std::string>> ListReports(std::string_view job_id) override;
  absl::StatusOr<std::map<std::string, int64_t>> CountJobs() override;

  absl::StatusOr<std::vector<QueuedStep>> ListQueuedSteps() override;
  absl::StatusOr<std::vector<Usage>> ListUsage(absl::Time since) override;
  absl::StatusOr<LeaseRecord> ClaimStep(const Claim& claim) override;
  absl::StatusOr<std::vector<LeaseRecord>> ListLeases(std::string_view agent) override;
  absl::StatusOr<LeaseRecord> CheckLease(const LeaseKey& key) override;
  absl::StatusOr<gq::v1::Lease> LoadLease(std::string_view lease_id) override;
  absl::StatusOr<Completion> CompleteAttempt(const LeaseKey& key,
                                             const gq::v1::StepResult& result) override;
  absl::StatusOr<std::vector<LeaseRecord>> ExpireLeases(absl::Duration grace) override;
  absl::StatusOr<std::vector<LeaseRecord>> EndAgent(std::string_view agent,
                                                    const gq::v1::Failure& failure) override;
  absl::Status StopLease(const LeaseKey& key, std::string_view reason) override;
  absl::Status RecordIteration(const LeaseKey& key, const gq::v1::Iteration& iteration) override;
  absl::Status SealLog(std::string_view job_id, int attempt, int64_t size) override;
  absl::StatusOr<std::vector<LeaseRecord>> RecoverLeases(absl::Duration grace) override;
  absl::StatusOr<int64_t> Epoch() override;

  absl::StatusOr<ContactOutcome> RecordContact(const AgentContact& contact) override;
  absl::Status RegisterLocalAgent(std::string_view agent) override;
  absl::Status KeepLocalAgents(std::span<const std::string> names) override;
  absl::StatusOr<std::vector<Agent>> ListAgents() override;
  absl::StatusOr<std::vector<BoardRecord>> ListBoards(absl::Duration online_within) override;
  absl::Status ReserveBoard(const Actor& actor, std::string_view board, absl::Time until,
                            std::string_view note) override;
  absl::Status ReleaseBoard(const Actor& actor, std::string_view board, bool force) override;
  absl::Status SetBoardHealth(const Actor& actor, std::string_view board,
                              gq::v1::BoardHealth health, std::string_view note) override;
  absl::StatusOr<std::vector<std::string>> DrainBoards(const Actor& actor, std::string_view pattern,
                                                       bool drain) override;
  absl::Status RequestHealthCheck(const Actor& actor, std::string_view board) override;
  absl::StatusOr<std::vector<std::string>> TakeHealthChecks(std::string_view agent) override;
  absl::Status RemoveBoard(const Actor& actor, std::string_view board) override;

  absl::Status RecordBlob(std::string_view principal, const gq::v1::Digest& digest) override;
  absl::StatusOr<std::vector<gq::v1::Digest>> FindMissingBlobs(
      std::string_view principal, std::span<const gq::v1::Digest> digests) override;
  absl::StatusOr<bool> MayReadBlob(const Viewer& viewer, const gq::v1::Digest& digest) override;
  absl::StatusOr<std::vector<gq::v1::Digest>> ListUnusedBlobs(absl::Duration age) override;
  absl::StatusOr<bool> ForgetBlob(const gq::v1::Digest& digest, absl::Duration age) override;
  absl::StatusOr<int64_t> BlobBytes() override;

  absl::Status AddToken(const Actor& actor, const TokenRecord& token) override;
  absl::StatusOr<std::vector<TokenRecord>> ListTokens() override;
  absl::StatusOr<int64_t> Backup(const Actor& actor, std::string_view path) override;
  absl::Status ForgetOldRecords(absl::Duration age) override;
  absl::Status CheckWritable() override;

 private:
  SqliteLedger(const std::filesystem::path& file, std::unique_ptr<Connection> writer,
               const base::Clock& clock, FaultPoint fault_point);

  template <typename T>
  absl::StatusOr<T> Read(const std::function<absl::StatusOr<T>(Connection&)>& read) {
    absl::StatusOr<T> value = absl::UnknownError("not run");
    absl::Status status = readers_.Run([&](Connection& db) {
      value = read(db);
      return value.status();
    });
    if (!status.ok()) return status;
    return value;
  }
  template <typename T>
  absl::StatusOr<T> Write(const std::function<absl::StatusOr<T>(Connection&)>& change) {
    return writer_.Apply<T>(change);
  }
  absl::Time Now() const { return clock_.Now(); }

  const base::Clock& clock_;
  IdGenerator ids_;
  ReaderPool readers_;
  Writer writer_;
};

}  // namespace gq::server
