#include "common/rpc/log_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/backoff.h"
#include "common/rpc/status_mapping.h"

namespace gq::rpc {
namespace {

using base::MakeError;
using base::Reason;

constexpr absl::Duration kFirstRetry = absl::Milliseconds(200);
constexpr absl::Duration kLastRetry = absl::Seconds(10);

std::string ReadChunk(int fd, int64_t offset, int64_t size) {
  std::string data(static_cast<size_t>(std::min<int64_t>(size, kLogChunkBytes)), '\0');
  const ssize_t n = ::pread(fd, data.data(), data.size(), static_cast<off_t>(offset));
  data.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogSpool>> LogSpool::Open(Options options,
                                                         std::shared_ptr<Channel> channel) {
  base::FileDescriptor fd(
      ::open(options.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return MakeError(errno == ENOSPC ? Reason::kDiskFull : Reason::kFileUnwritable,
                     base::StrCat(options.path.string(), ": ", std::strerror(errno)));
  }
  return std::unique_ptr<LogSpool>(
      new LogSpool(std::move(options), std::move(channel), std::move(fd), info.st_size));
}

LogSpool::LogSpool(Options options, std::shared_ptr<Channel> channel, base::FileDescriptor fd,
                   int64_t size)
    : options_(std::move(options)),
      channel_(std::move(channel)),
      stub_(gq::v1::AgentService::NewStub(channel_->grpc())),
      fd_(std::move(fd)),
      size_(size),
      known_(size == 0),
      sender_([this](std::stop_token stop) { Send(std::move(stop)); }) {}

LogSpool::~LogSpool() {
  sender_.request_stop();
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  sender_.join();
}

absl::Status LogSpool::Append(std::string_view bytes) {
  absl::MutexLock lock(&mutex_);
  GQ_RETURN_IF_ERROR(base::WriteAll(fd_.get(), bytes, options_.path.string()));
  size_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

int64_t LogSpool::acknowledged() const {
  absl::MutexLock lock(&mutex_);
  return acknowledged_;
}

bool LogSpool::WaitUntilSent(absl::Duration timeout, std::stop_token stop) {
  bool given_up = false;
  const std::stop_callback on_stop(std::move(stop), [&] {
    absl::MutexLock lock(&mutex_);
    given_up = true;
  });
  absl::MutexLock lock(&mutex_);
  const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return given_up || Settled(); };
  mutex_.AwaitWithTimeout(absl::Condition(&over), timeout);
  return acknowledged_ == size_ && known_ && !refused_;
}

void LogSpool::Advance(int64_t committed) {
  absl::MutexLock lock(&mutex_);
  known_ = true;
  acknowledged_ = std::clamp<int64_t>(committed, 0, size_);
}

absl::StatusOr<int64_t> LogSpool::AppendOnce(int64_t offset, const std::string& data,
                                             std::stop_token stop, absl::Duration& retry_after) {
  gq::v1::AppendLogRequest request;
  request.set_lease_id(options_.lease_id);
  request.set_generation(options_.generation);
  request.set_offset(offset);
  request.set_data(data);
  gq::v1::AppendLogResponse response;
  grpc::ClientContext context;
  channel_->Prepare(context, kAppendLogTimeout);
  const std::stop_callback on_stop(std::move(stop), [&context] { context.TryCancel(); });
  const grpc::Status status = stub_->AppendLog(&context, request, &response);
  retry_after = RetryDelay(status).value_or(absl::ZeroDuration());
  if (!status.ok()) return FromGrpcStatus(status);
  return response.committed_size();
}

void LogSpool::Send(std::stop_token stop) {
  Backoff backoff(kFirstRetry, kLastRetry, std::random_device()());
  while (!stop.stop_requested()) {
    int64_t offset = 0;
    std::string data;
    {
      absl::MutexLock lock(&mutex_);
      const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !Idle(); };
      mutex_.Await(absl::Condition(&something));
      if (stopped_) return;
      if (known_) {
        offset = acknowledged_;
        data = ReadChunk(fd_.get(), offset, size_ - offset);
      }
    }
    absl::Duration retry_after;
    const absl::StatusOr<int64_t> committed = AppendOnce(offset, data, stop, retry_after);
    if (stop.stop_requested()) return;
    if (committed.ok()) {
      backoff.Reset();
      Advance(*committed);
      if (!SleepFor(options_.min_interval, stop)) return;
      continue;
    }
    const Reason reason = base::GetReason(committed.status());
    if (reason == Reason::kLeaseLost) {
      {
        absl::MutexLock lock(&mutex_);
        refused_ = true;
      }
      if (options_.on_refused) options_.on_refused();
      return;
    }
    if (reason == Reason::kLogGap) {
      // The server has less than it had acknowledged; an empty append tells how much.
      absl::MutexLock lock(&mutex_);
      known_ = false;
    }
    if (!SleepFor(backoff.Next(retry_after), stop)) return;
  }
}

}  // namespace gq::rpc
