// Delays between tries of the loops that reconnect: windowed full jitter.
#pragma once

#include <cstdint>
#include <random>
#include <stop_token>

#include "absl/time/time.h"

namespace gq::rpc {

// The n-th window is min(first * 2^n, limit) long; a try takes place at a random moment of its
// window and the next window begins where that one ends, so that many clients which lost one server
// do not come back in step. Not thread-safe.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration limit, uint64_t seed);
  // 1 s to 60 s, seeded from the system.
  Backoff();

  // Time to wait before the next try; at least `at_least`, e.g. what the server asked for.
  absl::Duration Next(absl::Duration at_least = absl::ZeroDuration());
  // Starts over; call it after a success.
  void Reset();

 private:
  absl::Duration first_;
  absl::Duration limit_;
  absl::Duration window_;
  absl::Duration rest_ = absl::ZeroDuration();
  std::mt19937_64 random_;
};

// Waits for `duration` or until a stop is requested; false when it was.
bool SleepFor(absl::Duration duration, std::stop_token stop);

}  // namespace gq::rpc
