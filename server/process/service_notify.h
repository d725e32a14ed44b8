// The service manager's notifications (sd_notify), without its library.
#pragma once

#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace gq::server {

// Sends e.g. `READY=1`, `STOPPING=1`, `WATCHDOG=1`; nothing happens without a service manager.
void NotifyServiceManager(std::string_view message);

// How often a sign of life is due; nothing when none is asked for.
std::optional<absl::Duration> WatchdogInterval();

}  // namespace gq::server
