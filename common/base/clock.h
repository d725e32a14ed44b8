// The one source of time for logic. Code that depends on time takes a Clock; tests pass a
// ManualClock.
#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gq::base {

// Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall-clock time.
  virtual absl::Time Now() const = 0;
};

class SystemClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace gq::base
