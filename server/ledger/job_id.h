// Ids of jobs and leases: lower-case letters and digits, sortable by the time they were made.
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gq::server {

// 9 characters of milliseconds since 1970 and 5 random ones, base 32 without i, l, o and u. Ids of
// one generator are strictly increasing. Thread-safe.
class IdGenerator {
 public:
  std::string Next(absl::Time now);

 private:
  absl::Mutex mutex_;
  uint64_t last_milliseconds_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t last_random_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gq::server
