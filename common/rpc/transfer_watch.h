// Breaks a streaming call off when it stalls or when its caller gives up.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"

namespace gq::rpc {

// Lives as long as the call. Thread-safe.
class TransferWatch {
 public:
  TransferWatch(grpc::ClientContext& context, absl::Duration stall_timeout, std::stop_token stop);
  ~TransferWatch();

  // Something moved.
  void Touch();

 private:
  void Watch();

  grpc::ClientContext& context_;
  const absl::Duration stall_timeout_;
  absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t moves_ ABSL_GUARDED_BY(mutex_) = 0;
  std::stop_callback<std::function<void()>> on_stop_;
  std::thread thread_;
};

}  // namespace gq::rpc
