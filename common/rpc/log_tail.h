// Reads the log of a job, with resume: no byte is lost and none comes twice, however often the
// connection drops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/rpc/backoff.h"
#include "common/rpc/channel.h"
#include "gq/v1/job_service.grpc.pb.h"

namespace gq::rpc {

// A place in the log of a job: the resume token. Attempt 0 is the beginning.
struct LogPosition {
  int32_t attempt = 0;
  int64_t offset = 0;
  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};

// `ATTEMPT:OFFSET`.
std::string FormatLogPosition(const LogPosition& position);
// Fails with kInvalidFlag.
absl::StatusOr<LogPosition> ParseLogPosition(std::string_view text);

struct LogEnd {
  gq::v1::JobState job_state = gq::v1::JOB_STATE_UNSPECIFIED;
  // Behind the last byte; the log goes on from here when it ended only because `follow` was off.
  LogPosition position;
};

struct LogTailOptions {
  // Wait for the job to end; otherwise stop behind what is stored now.
  bool follow = true;
  // Tries in a row without a new byte before an unreachable server is an error; 0 means for ever.
  int max_tries = 0;
  // Called when the connection was lost and is being tried again; may be empty.
  std::function<void(const absl::Status& reason, absl::Duration delay)> on_reconnect;
  Backoff backoff;
  std::stop_token stop;
};

// Passes the log from `from` on to `sink`, which gets the position of the first of its bytes.
// Blocks until the log has ended. Fails with kCancelled on a stop, kServerUnreachable after
// max_tries, or with the server's refusal (kNotFound, kPermissionDenied, kUnauthenticated ...).
absl::StatusOr<LogEnd> TailLog(Channel& channel, const std::string& job_id, LogPosition from,
                               const std::function<void(LogPosition, std::string_view)>& sink,
                               LogTailOptions options = {});

}  // namespace gq::rpc
