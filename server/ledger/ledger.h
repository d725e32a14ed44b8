// The durable memory of the service: jobs, steps, attempts, boards, blobs, tokens, audit.
//
// Every call that changes something is one atomic transaction; when it has returned OK, the change
// survives a crash. Calls block (on disk), so none is made from a gRPC thread. Thread-safe.
//
// Errors beside those named at a call: kLedgerFailed (disk or file), kOverloaded (too many writes
// are waiting).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/ledger/records.h"

namespace gq::server {

// Most times a step is lost to infrastructure, and most times it fails in a way worth another try;
// the two are counted apart.
inline constexpr int kMaxTries = 3;

class Ledger {
 public:
  virtual ~Ledger() = default;

  // --- Jobs -------------------------------------------------------------------------------------

  // Stores a job with its steps, the first of them queued. The same principal, request_id and
  // request_digest give the job of the first call. Fails with kRequestIdReused when the digest is
  // another one, and with kBlobMissing when a blob is not there or not the principal's.
  virtual absl::StatusOr<gq::v1::Job> CreateJob(const NewJob& job) = 0;

  // The job of an earlier call with this request, or kNotFound. Fails with kRequestIdReused.
  virtual absl::StatusOr<gq::v1::Job> FindSubmitted(std::string_view principal,
                                                    std::string_view request_id,
                                                    std::string_view request_digest) = 0;

  // The full id for an id, a unique prefix, or `@last` (the viewer's latest job). Fails with
  // kNotFound, also for jobs that the viewer may not see, and kAmbiguousId.
  virtual absl::StatusOr<std::string> ResolveJobId(const Viewer& viewer, std::string_view id) = 0;

  // A job with steps and attempts; kNotFound. Waiting reason, progress and the log sizes of running
  // attempts are left to the caller.
  virtual absl::StatusOr<gq::v1::Job> GetJob(std::string_view id) = 0;

  // Newest first, at most filter.limit; steps carry no attempts.
  virtual absl::StatusOr<std::vector<gq::v1::Job>> ListJobs(const JobFilter& filter) = 0;

  // Events with sequence >= from, oldest first, at most `limit`.
  virtual absl::StatusOr<std::vector<gq::v1::JobEvent>> ListEvents(std::string_view job_id,
                                                                   int64_t from, int limit) = 0;

  // Cancels a job at once when no attempt runs, otherwise asks its attempt to stop; a job that is
  // being cancelled stays so. Fails with kNotFound, kJobFinished.
  virtual absl::StatusOr<gq::v1::Job> RequestCancel(const Actor& actor, std::string_view job_id,
                                                    std::string_view reason) = 0;

  // Queues a failed or cancelled job again from its first step that has not succeeded, with fresh
  // counts of tries. Fails with kNotFound, kJobNotFinished, kJobFinished (it succeeded).
  virtual absl::StatusOr<gq::v1::Job> RetryJob(const Actor& actor, std::string_view job_id) = 0;

  // Removes an ended job with everything that belongs to it but its audit lines. Fails with
  // kNotFound, kJobNotFinished.
  virtual absl::Status DeleteJob(const Actor& actor, std::string_view job_id) = 0;

  // Marks a step that has not been reached yet: it will be left out, for this reason.
  virtual absl::Status PlanSkip(std::string_view job_id, int step_index,
                                std::string_view reason) = 0;

  // Ends a job whose queued step cannot be had, as FAILED; a Board Run step counts as SKIPPED.
  // False when the step is not queued (any more).
  virtual absl::StatusOr<bool> GiveUpStep(std::string_view job_id, int step_index,
                                          const gq::v1::Failure& failure) = 0;

  // Ids of jobs whose step waits longer than its job allows; they end as FAILED (TIMEOUT), a Board
  // Run step as SKIPPED.
  virtual absl::StatusOr<std::vector<std::string>> ExpireQueuedSteps() = 0;

  virtual absl::StatusOr<std::vector<gq::v1::Iteration>> ListIterations(std::string_view job_id,
                                                                        int after, int limit) = 0;
  virtual absl::StatusOr<std::vector<gq::v1::Artifact>> ListArtifacts(std::string_view job_id) = 0;

  // Report fragments by step index; absent where a step has not reported.
  virtual absl::StatusOr<std::map<int, std::string>> ListReports(std::string_view job_id) = 0;

  virtual absl::StatusOr<std::map<std::string, int64_t>> CountJobs() = 0;

  // --- Steps and leases -------------------------------------------------------------------------

  // Steps that are ready, in no order that matters.
  virtual absl::StatusOr<std::vector<QueuedStep>> ListQueuedSteps() = 0;

  // Running attempts and run time since `since`, by principal.
  virtual absl::StatusOr<std::vector<Usage>> ListUsage(absl::Time since) = 0;

  // Hands a queued step out. Fails with kBoardBusy when the step is no longer queued or the board
  // is in use, and with kLeaseLost when the session is not the agent's current one.
  virtual absl::StatusOr<LeaseRecord> ClaimStep(const Claim& claim) = 0;

  // Live leases; of one agent when `agent` is not empty.
  virtual absl::StatusOr<std::vector<LeaseRecord>> ListLeases(std::string_view agent) = 0;

  // The live lease of this key, or kLeaseLost.
  virtual absl::StatusOr<LeaseRecord> CheckLease(const LeaseKey& key) = 0;

  // Everything an agent needs for a live lease; kLeaseLost.
  virtual absl::StatusOr<gq::v1::Lease> LoadLease(std::string_view lease_id) = 0;

  // Stores the outcome of an attempt and moves step and job on. A result that is already stored is
  // a duplicate and changes nothing. Fails with kLeaseLost, kBlobMissing.
  virtual absl::StatusOr<Completion> CompleteAttempt(const LeaseKey& key,
                                                     const gq::v1::StepResult& result) = 0;

  // Ends leases whose time is over.
  virtual absl::StatusOr<std::vector<LeaseRecord>> ExpireLeases(absl::Duration grace) = 0;

  // Ends all leases of an agent that is known to be gone and marks it as not connected.
  virtual absl::StatusOr<std::vector<LeaseRecord>> EndAgent(std::string_view agent,
                                                            const gq::v1::Failure& failure) = 0;

  // Asks the attempt of a live lease to stop, for `reason`.
  virtual absl::Status StopLease(const LeaseKey& key, std::string_view reason) = 0;

  // Stores an iteration; the same number twice is stored once. Fails with kLeaseLost.
  virtual absl::Status RecordIteration(const LeaseKey& key, const gq::v1::Iteration& iteration) = 0;

  // Notes the final size of an attempt's log.
  virtual absl::Status SealLog(std::string_view job_id, int attempt, int64_t size) = 0;

  // Called once at the start: counts the start, ends the leases of local agents, gives those of
  // others `grace` from now. Returns the ended ones.
  virtual absl::StatusOr<std::vector<LeaseRecord>> RecoverLeases(absl::Duration grace) = 0;

  // Number of starts on this file.
  virtual absl::StatusOr<int64_t> Epoch() = 0;

  // --- Agents and boards ------------------------------------------------------------------------

  // Notes a call of an agent: renews its leases, begins a new session (which ends the leases of the
  // one before), registers its boards. Fails with kLeaseLost when the session was superseded, and
  // with kAlreadyExists when a board belongs to another agent that is connected.
  virtual absl::StatusOr<ContactOutcome> RecordContact(const AgentContact& contact) = 0;

  // Makes a name known as that of a child process of the server.
  virtual absl::Status RegisterLocalAgent(std::string_view agent) = 0;
  // Forgets every local agent that is not in `names`, with its boards.
  virtual absl::Status KeepLocalAgents(std::span<const std::string> names) = 0;

  virtual absl::StatusOr<std::vector<Agent>> ListAgents() = 0;

  // Boards by name; those of agents not heard of within `online_within` are not online.
  virtual absl::StatusOr<std::vector<BoardRecord>> ListBoards(absl::Duration online_within) = 0;

  // Reserves a board, or moves the end of the principal's own reservation. Fails with kNotFound,
  // kBoardReserved.
  virtual absl::Status ReserveBoard(const Actor& actor, std::string_view board, absl::Time until,
                                    std::string_view note) = 0;
  // Ends a reservation. `force` ends that of another. Fails with kNotFound, kPermissionDenied.
  virtual absl::Status ReleaseBoard(const Actor& actor, std::string_view board, bool force) = 0;
  // UNKNOWN hands the health back to the checks. Fails with kNotFound.
  virtual absl::Status SetBoardHealth(const Actor& actor, std::string_view board,
                                      gq::v1::BoardHealth health, std::string_view note) = 0;
  // Names of the boards that matched.
  virtual absl::StatusOr<std::vector<std::string>> DrainBoards(const Actor& actor,
                                                               std::string_view pattern,
                                                               bool drain) = 0;
  virtual absl::Status RequestHealthCheck(const Actor& actor, std::string_view board) = 0;
  // Boards of the agent whose health check is due; they are due no longer.
  virtual absl::StatusOr<std::vector<std::string>> TakeHealthChecks(std::string_view agent) = 0;
  // Fails with kNotFound, kBoardBusy.
  virtual absl::Status RemoveBoard(const Actor& actor, std::string_view board) = 0;

  // --- Blobs ------------------------------------------------------------------------------------

  // Notes that a blob is stored and that the principal possesses it.
  virtual absl::Status RecordBlob(std::string_view principal, const gq::v1::Digest& digest) = 0;
  // Of the given blobs those that the principal has to upload; the others count as touched now.
  virtual absl::StatusOr<std::vector<gq::v1::Digest>> FindMissingBlobs(
      std::string_view principal, std::span<const gq::v1::Digest> digests) = 0;
  // Whether the viewer may read a blob: possession, or a visible job that refers to it.
  virtual absl::StatusOr<bool> MayReadBlob(const Viewer& viewer, const gq::v1::Digest& digest) = 0;
  // Blobs that nothing refers to and that were not touched within `age`.
  virtual absl::StatusOr<std::vector<gq::v1::Digest>> ListUnusedBlobs(absl::Duration age) = 0;
  // Forgets a blob if it is still unused; false when it is not.
  virtual absl::StatusOr<bool> ForgetBlob(const gq::v1::Digest& digest, absl::Duration age) = 0;
  virtual absl::StatusOr<int64_t> BlobBytes() = 0;

  // --- Tokens -----------------------------------------------------------------------------------

  // Stores a token; replaces one of the same id.
  virtual absl::Status AddToken(const Actor& actor, const TokenRecord& token) = 0;
  virtual absl::StatusOr<std::vector<TokenRecord>> ListTokens() = 0;

  // --- The file itself --------------------------------------------------------------------------

  // Writes a consistent copy to a new file; its size in bytes. Fails with kAlreadyExists,
  // kFileUnwritable.
  virtual absl::StatusOr<int64_t> Backup(const Actor& actor, std::string_view path) = 0;

  // Forgets requests and sessions of agents that are older: a request repeated later makes a new
  // job.
  virtual absl::Status ForgetOldRecords(absl::Duration age) = 0;

  // Whether changes can be stored: waits for the writer, so that a stuck disk is noticed.
  virtual absl::Status CheckWritable() = 0;
};

}  // namespace gq::server
