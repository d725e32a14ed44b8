// Settings of gq-server: flags, then environment variables, then one YAML file, then defaults.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service.h"

namespace gq::server {

struct Settings {
  ServiceOptions service;
  int workers = 0;
  bool sim_boards = true;
  std::string plugins;  // folder; empty for none
  absl::Duration drain_timeout;
  std::string log_level;
};

// Settings, or the exit status when the program is to end at once (`--help`, `--version`,
// `--print-config`; text is on standard output). Fails with kInvalidFlag, kConfigInvalid,
// kFileNotFound, kFileUnreadable.
struct ParsedSettings {
  Settings settings;
  std::optional<int> exit_status;
};
absl::StatusOr<ParsedSettings> ReadSettings(int argc, const char* const* argv);

}  // namespace gq::server
