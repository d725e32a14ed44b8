#include "common/rpc/transfer_watch.h"

#include <cstdint>

namespace gq::rpc {

TransferWatch::TransferWatch(grpc::ClientContext& context, absl::Duration stall_timeout,
                             std::stop_token stop)
    : context_(context),
      stall_timeout_(stall_timeout),
      on_stop_(std::move(stop), [this] { context_.TryCancel(); }),
      thread_([this] { Watch(); }) {}

TransferWatch::~TransferWatch() {
  {
    absl::MutexLock lock(&mutex_);
    done_ = true;
  }
  thread_.join();
}

void TransferWatch::Touch() {
  absl::MutexLock lock(&mutex_);
  ++moves_;
}

void TransferWatch::Watch() {
  absl::MutexLock lock(&mutex_);
  uint64_t seen = moves_;
  while (!done_) {
    mutex_.AwaitWithTimeout(absl::Condition(&done_), stall_timeout_);
    if (done_) return;
    if (moves_ == seen) {
      context_.TryCancel();
      return;
    }
    seen = moves_;
  }
}

}  // namespace gq::rpc
