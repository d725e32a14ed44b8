// Time for intervals and deadlines: it never jumps, and it means nothing to anybody else.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace gq::rpc {

// Time since some moment in the past.
inline absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace gq::rpc
