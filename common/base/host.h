// Where this process runs: its host, its program file, and the place for what it keeps.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gq::base {

// The name of this host; `otherwise` when the system does not tell.
std::string HostName(std::string_view otherwise = "");

// The file of the running program, to start it once more or to find its neighbours.
absl::StatusOr<std::filesystem::path> OwnProgram();

// What the place of state depends on, so that it can be asked about another process.
struct StatePlace {
  bool root = false;
  std::string xdg_state_home;
  std::string home;

  static StatePlace OfProcess();
};

// `/var/lib/gq` for root, else `$XDG_STATE_HOME/gq`, else `~/.local/state/gq`.
std::filesystem::path StateFolder(const StatePlace& place = StatePlace::OfProcess());

}  // namespace gq::base
