// A clock that stands still until it is told to move.
#pragma once

#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"

namespace gq::server {

class ManualClock : public base::Clock {
 public:
  explicit ManualClock(absl::Time start = absl::FromUnixSeconds(1'800'000'000)) : now_(start) {}

  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::server
