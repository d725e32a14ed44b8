// Rows of jobs, steps and attempts as messages, and the transitions between their states
// (docs/decisions/ledger.md draws them). Everything here runs inside a transaction of the caller
// and throws SQLite::Exception.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gq/v1/job_service.pb.h"
#include "server/ledger/records.h"
#include "server/ledger/sqlite_connection.h"

namespace gq::server {

inline int64_t ToMicros(absl::Time time) { return absl::ToUnixMicros(time); }
inline absl::Time FromMicros(int64_t micros) { return absl::FromUnixMicros(micros); }
void SetTimestamp(int64_t micros, google::protobuf::Timestamp* timestamp);

// --- Reading ------------------------------------------------------------------------------------

// A job with its steps and, if asked for, their attempts; kNotFound.
absl::StatusOr<gq::v1::Job> LoadJob(Connection& db, std::string_view id, bool with_attempts);

// The message of the job row that `query` stands on; its columns are kJobColumns.
extern const char kJobColumns[];
gq::v1::Job JobFromRow(Query& query);
void LoadSteps(Connection& db, bool with_attempts, gq::v1::Job* job);

// Leases that match `condition`, an SQL expression over attempt `a` with text parameters.
std::vector<LeaseRecord> LoadLeases(Connection& db, std::string_view condition,
                                    const std::vector<std::string>& parameters);

struct JobHead {
  gq::v1::JobState state = gq::v1::JOB_STATE_UNSPECIFIED;
  std::string principal;
};
std::optional<JobHead> LoadJobHead(Connection& db, std::string_view id);

absl::Status JobNotFound(std::string_view id);

// --- Writing ------------------------------------------------------------------------------------

struct EventNote {
  int step_index = -1;
  gq::v1::StepState step_state = gq::v1::STEP_STATE_UNSPECIFIED;
  int attempt = 0;
  std::string message;
};
// Adds the next event of a job; its job state is the one stored now.
void AppendEvent(Connection& db, absl::Time now, std::string_view job_id, const EventNote& note);

void SetJobState(Connection& db, absl::Time now, std::string_view job_id, gq::v1::JobState state);
void SetJobFailure(Connection& db, std::string_view job_id, const gq::v1::Failure& failure);
void SetStepState(Connection& db, std::string_view job_id, int step, gq::v1::StepState state);
// The step waits for somebody to take it, from now on.
void QueueStep(Connection& db, absl::Time now, std::string_view job_id, int step);
void SkipStep(Connection& db, std::string_view job_id, int step, std::string_view reason);
// Steps that have not begun: CANCELLED.
void CancelOpenSteps(Connection& db, std::string_view job_id);

// Ends an attempt. False when it had ended before.
bool EndAttempt(Connection& db, absl::Time now, const LeaseRecord& lease,
                gq::v1::AttemptState state, const gq::v1::Failure* failure, bool reported);

// What the end of an attempt means for its step and job: the next step, another try, or the end.
// `failure` is set unless the state is SUCCEEDED. True when a step became ready.
bool MoveOn(Connection& db, absl::Time now, const LeaseRecord& lease, gq::v1::AttemptState state,
            const gq::v1::Failure& failure, std::string_view skip_reason);

// Counts an infrastructure failure or a success of a board.
void CountBoardOutcome(Connection& db, absl::Time now, std::string_view board, bool failed,
                       std::string_view detail);

void Audit(Connection& db, absl::Time now, const Actor& actor, std::string_view target,
           std::string_view detail);
void EnsurePrincipal(Connection& db, absl::Time now, std::string_view name);

}  // namespace gq::server
