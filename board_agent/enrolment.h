// How an agent gets an identity of its own.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "board_agent/agent_config.h"

namespace gq::agent {

// Where an enrolled agent keeps its token (mode 0600).
std::filesystem::path IdentityFile(const AgentConfig& config);

// Exchanges the one-time token of `gq agents enroll` and stores the agent's own. Errors: those of
// the server (kUnauthenticated for a token that was used or is over), kInvalidFlag when the token
// is for another name, kFileUnwritable.
absl::Status Enrol(const AgentConfig& config, const std::string& token);

}  // namespace gq::agent
