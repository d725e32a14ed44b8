#include "common/rpc/backoff.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace gq::rpc {

Backoff::Backoff(absl::Duration first, absl::Duration limit, uint64_t seed)
    : first_(first), limit_(limit), window_(first), random_(seed) {}

Backoff::Backoff() : Backoff(absl::Seconds(1), absl::Seconds(60), std::random_device()()) {}

absl::Duration Backoff::Next(absl::Duration at_least) {
  const double share = std::uniform_real_distribution<double>(0, 1)(random_);
  const absl::Duration moment = window_ * share;
  const absl::Duration delay = rest_ + moment;
  rest_ = window_ - moment;
  window_ = std::min(window_ * 2, limit_);
  return std::max(delay, at_least);
}

void Backoff::Reset() {
  window_ = first_;
  rest_ = absl::ZeroDuration();
}

bool SleepFor(absl::Duration duration, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [] { return false; });
  return !stop.stop_requested();
}

}  // namespace gq::rpc
