#include "board_agent/backends/sim/sim_fault.h"

#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::agent {

absl::StatusOr<SimFault> ParseSimFault(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, SimFault>, 9> kFaults = {{
      {"", SimFault::kNone},
      {"slow", SimFault::kSlow},
      {"hang", SimFault::kHang},
      {"crash", SimFault::kCrash},
      {"flaky", SimFault::kFlaky},
      {"error-lines", SimFault::kErrorLines},
      {"silent-fallback", SimFault::kSilentFallback},
      {"wrong-output", SimFault::kWrongOutput},
      {"unhealthy", SimFault::kUnhealthy},
  }};
  for (const auto& [name, fault] : kFaults) {
    if (name == text) return fault;
  }
  return base::MakeError(base::Reason::kInvalidFlag,
                         base::StrCat("there is no simulated fault '", text, "'"));
}

}  // namespace gq::agent
