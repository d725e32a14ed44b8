// Settings of gq-agent: flags, environment and one YAML file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "board_agent/backends/backend.h"

namespace gq::agent {

struct AgentConfig {
  std::string server;      // unix:PATH or HOST:PORT
  std::string name;        // on the server; the host's name by default
  std::string token_file;  // bearer token
  std::string ca_file;     // for TLS
  std::string state_dir;
  int slots = 0;                 // leases at once; 0: as many as there are boards
  double health_interval = 600;  // seconds between health checks
  double memory_gib = 0;         // address space of a step; 0: no limit
  std::string backend = "sim";   // of boards that name none
  // The boards of a fresh server: ve2-sim, ethos-u-sim, xnnpack-cpu. Also when no board is named.
  bool sim_boards = false;
  std::vector<BoardSpec> boards;
};

// Reads the keys of a YAML file into `config`; what the file does not name stays. Fails with
// kFileNotFound, kFileUnreadable, or kConfigInvalid for an unknown key or a value of the wrong kind
// (with file and line).
absl::Status ReadConfigFile(const std::filesystem::path& path, AgentConfig& config);

// Fills in what was left open: host name, state folder, the simulated boards. Fails with
// kInvalidFlag when there is no server, or no board for a backend that is not simulated.
absl::Status CompleteConfig(AgentConfig& config);

// As a YAML file that ReadConfigFile reads back.
std::string FormatConfig(const AgentConfig& config);

// Boards as JSON, for the environment of a step's process, and back.
std::string BoardsToJson(const std::vector<BoardSpec>& boards);
absl::StatusOr<std::vector<BoardSpec>> BoardsFromJson(const std::string& json);

}  // namespace gq::agent
