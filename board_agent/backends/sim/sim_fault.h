// How a simulated board misbehaves when a test asks for it.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace gq::agent {

enum class SimFault {
  kNone,
  kSlow,            // every phase takes a second longer
  kHang,            // never ends, until it is stopped
  kCrash,           // the process ends by a signal
  kFlaky,           // crashes in every second work folder, told apart by its name
  kErrorLines,      // errors in the log, and yet success
  kSilentFallback,  // success without a compiled model
  kWrongOutput,     // runs give wrong values
  kUnhealthy,       // the health check fails
};

// `` (none), `slow`, `hang`, `crash`, `flaky`, `error-lines`, `silent-fallback`,
// `wrong-output`, `unhealthy`; kInvalidFlag otherwise.
absl::StatusOr<SimFault> ParseSimFault(std::string_view text);

}  // namespace gq::agent
