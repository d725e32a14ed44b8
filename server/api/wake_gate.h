// Who looks next at something that many may change: at most one step at a time, and none too few.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gq::server {

// A call that waits for changes does its work in steps on the executor. It begins with a step under
// way. Thread-safe.
class WakeGate {
 public:
  // Something may have changed. True when no step is under way: the caller has to post one.
  bool Wake() {
    absl::MutexLock lock(&mutex_);
    if (state_ == State::kIdle) {
      state_ = State::kBusy;
      return true;
    }
    changed_ = true;
    return false;
  }

  // To be asked by a step that found nothing to do. True when something has changed meanwhile and
  // another step is due; else the call is idle until Wake.
  bool LookAgain() {
    absl::MutexLock lock(&mutex_);
    if (!changed_) {
      state_ = State::kIdle;
      return false;
    }
    changed_ = false;
    return true;
  }

  // The call has ended: Wake asks for no step any more.
  void Close() {
    absl::MutexLock lock(&mutex_);
    state_ = State::kClosed;
  }

 private:
  enum class State { kBusy, kIdle, kClosed };

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kBusy;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gq::server
