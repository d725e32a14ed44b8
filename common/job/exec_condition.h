// `--exec-if`: whether Board Run takes place, by what Compile reported.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace gq::job {

// `always` (or empty), `full-offload`, `offload>=N%`. Fails with kInvalidFlag.
absl::Status CheckExecCondition(std::string_view condition);

// Why Board Run does not take place, e.g. `offload 91 % is below 98 %`; empty when it does. A
// report without the figure does not meet a condition, and full-offload takes no more than one
// partition on the NPU. `condition` is one that CheckExecCondition accepts, `compile_report` the
// JSON object of the Compile step.
std::string WhyNotExecuted(std::string_view condition, std::string_view compile_report);

}  // namespace gq::job
