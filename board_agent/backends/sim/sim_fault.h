// How a simulated board misbehaves when a test asks for it.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace gq::agent {

// Boards that hang, crash or compute wrong fail their health checks after the first one.
enum class SimFault {
  kNone,
  kSlow,            // every phase takes a second longer
  kHang,            // never ends, until it is stopped
  kCrash,           // the process ends by a signal
  kFlaky,           // crashes at the first, third ... try of a step
  kErrorLines,      // errors in the log, and yet success
  kSilentFallback,  // success without a compiled model
  kWrongOutput,     // runs give wrong values
  kUnhealthy,       // the health check fails
};

// `` (none), `slow`, `hang`, `crash`, `flaky`, `error-lines`, `silent-fallback`,
// `wrong-output`, `unhealthy`; kInvalidFlag otherwise.
absl::StatusOr<SimFault> ParseSimFault(std::string_view text);

}  // namespace gq::agent
