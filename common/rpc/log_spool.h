// Log of one lease on its way to the server: kept in a file until the server has stored it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "common/rpc/channel.h"
#include "gq/v1/agent_service.grpc.pb.h"

namespace gq::rpc {

inline constexpr size_t kLogChunkBytes = 64 << 10;

// Appends to a file and sends it with AppendLog in the background, in order, each byte until it is
// acknowledged. Thread-safe.
class LogSpool {
 public:
  struct Options {
    std::filesystem::path path;  // continued when it exists
    std::string lease_id;
    int64_t generation = 0;
    absl::Duration min_interval;       // between two calls
    std::function<void()> on_refused;  // the server answered LEASE_LOST; called once
  };

  // Fails with kFileUnwritable or kDiskFull.
  static absl::StatusOr<std::unique_ptr<LogSpool>> Open(Options options,
                                                        std::shared_ptr<Channel> channel);
  // Ends the sending, whether or not everything was sent.
  ~LogSpool();

  // Whole lines. Fails with kDiskFull or kFileUnwritable; what was not written is gone.
  absl::Status Append(std::string_view bytes);

  // Bytes the server has acknowledged.
  int64_t acknowledged() const;

  // Waits until everything is acknowledged. False when that will not be (refused), or on a stop, or
  // after `timeout`.
  bool WaitUntilSent(absl::Duration timeout, std::stop_token stop);

 private:
  LogSpool(Options options, std::shared_ptr<Channel> channel, base::FileDescriptor fd,
           int64_t size);

  void Send(std::stop_token stop);
  // One call; the bytes stored according to the server.
  absl::StatusOr<int64_t> AppendOnce(int64_t offset, const std::string& data, std::stop_token stop,
                                     absl::Duration& retry_after);
  void Advance(int64_t committed);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return acknowledged_ == size_ && known_ && !stopped_;
  }
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (acknowledged_ == size_ && known_) || refused_ || stopped_;
  }

  const Options options_;
  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<gq::v1::AgentService::Stub> stub_;
  const base::FileDescriptor fd_;
  mutable absl::Mutex mutex_;
  int64_t size_ ABSL_GUARDED_BY(mutex_);
  int64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  bool known_ ABSL_GUARDED_BY(mutex_);  // false while the server has to tell what it has
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread sender_;
};

}  // namespace gq::rpc
