#include "common/rpc/log_tail.h"

#include <charconv>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/status_mapping.h"
#include "common/rpc/transfer_watch.h"

namespace gq::rpc {
namespace {

using base::MakeError;
using base::Reason;

// The server sends a sign of life every 15 s.
constexpr absl::Duration kStallTimeout = absl::Seconds(60);

template <typename T>
bool ParseNumber(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

// Keeps the place and passes on what is new.
class Cursor {
 public:
  Cursor(LogPosition position, const std::function<void(LogPosition, std::string_view)>& sink)
      : position_(position), sink_(sink) {}

  const LogPosition& position() const { return position_; }

  // False when bytes are missing before this chunk.
  bool Take(const gq::v1::TailLogResponse& chunk) {
    if (chunk.data().empty() || chunk.attempt() < position_.attempt) return true;
    if (chunk.attempt() > position_.attempt) {
      if (chunk.offset() != 0) return false;
      position_ = {chunk.attempt(), 0};
    }
    if (chunk.offset() > position_.offset) return false;
    const int64_t known = position_.offset - chunk.offset();
    const std::string_view data = chunk.data();
    if (known >= static_cast<int64_t>(data.size())) return true;
    const std::string_view fresh = data.substr(static_cast<size_t>(known));
    sink_(position_, fresh);
    position_.offset += static_cast<int64_t>(fresh.size());
    return true;
  }

 private:
  LogPosition position_;
  const std::function<void(LogPosition, std::string_view)>& sink_;
};

}  // namespace

std::string FormatLogPosition(const LogPosition& position) {
  return base::StrCat(position.attempt, ":", position.offset);
}

absl::StatusOr<LogPosition> ParseLogPosition(std::string_view text) {
  const size_t colon = text.find(':');
  LogPosition position;
  if (colon == std::string_view::npos || !ParseNumber(text.substr(0, colon), position.attempt) ||
      !ParseNumber(text.substr(colon + 1), position.offset)) {
    return MakeError(Reason::kInvalidFlag, base::StrCat("'", text, "' is not a position in a log"),
                     "Give ATTEMPT:OFFSET, e.g. 2:4096.");
  }
  return position;
}

absl::StatusOr<LogEnd> TailLog(Channel& channel, const std::string& job_id, LogPosition from,
                               const std::function<void(LogPosition, std::string_view)>& sink,
                               LogTailOptions options) {
  const auto stub = gq::v1::JobService::NewStub(channel.grpc());
  Cursor cursor(from, sink);
  int tries = 0;
  while (true) {
    if (options.stop.stop_requested()) return MakeError(Reason::kCancelled, "stopped");
    gq::v1::TailLogRequest request;
    request.set_id(job_id);
    request.set_attempt(cursor.position().attempt);
    request.set_offset(cursor.position().offset);
    request.set_follow(options.follow);
    const LogPosition before = cursor.position();

    grpc::ClientContext context;
    channel.Prepare(context, kStreamTimeout);
    grpc::Status status;
    bool gap = false;
    {
      TransferWatch watch(context, kStallTimeout, options.stop);
      const auto reader = stub->TailLog(&context, request);
      gq::v1::TailLogResponse chunk;
      while (!gap && reader->Read(&chunk)) {
        watch.Touch();
        gap = !cursor.Take(chunk);
        if (chunk.final() && !gap) {
          LogEnd end{chunk.job_state(), cursor.position()};
          // The log is complete whatever becomes of the call.
          context.TryCancel();
          reader->Finish();
          return end;
        }
      }
      if (gap) context.TryCancel();
      status = reader->Finish();
    }
    if (options.stop.stop_requested()) return MakeError(Reason::kCancelled, "stopped");

    absl::Status error = FromGrpcStatus(status);
    const bool broken_off = status.ok() || gap || base::GetReason(error) == Reason::kCancelled;
    if (broken_off) {
      error = MakeError(Reason::kServerUnreachable, gap ? "a part of the log was missing"
                                                        : "the stream of the log ended early");
    } else if (!IsTransient(error) && status.error_code() != grpc::StatusCode::INTERNAL &&
               status.error_code() != grpc::StatusCode::UNKNOWN) {
      return error;
    }
    if (cursor.position() == before) {
      ++tries;
    } else {
      tries = 0;
      options.backoff.Reset();
    }
    if (options.max_tries > 0 && tries >= options.max_tries) return error;
    // An expired stream is renewed without a word.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) continue;
    const absl::Duration delay =
        options.backoff.Next(RetryDelay(status).value_or(absl::ZeroDuration()));
    if (options.on_reconnect) options.on_reconnect(error, delay);
    if (!SleepFor(delay, options.stop)) return MakeError(Reason::kCancelled, "stopped");
  }
}

}  // namespace gq::rpc
