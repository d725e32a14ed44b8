// `gq-agent serve`: the session of the agent with its server.
#pragma once

#include "absl/status/status.h"
#include "board_agent/agent_config.h"

namespace gq::agent {

// The environment variable in which a step's process finds the boards.
inline constexpr char kBoardsVariable[] = "GQ_AGENT_BOARDS";

// Runs until the server or a signal ends it. The first SIGTERM or SIGINT drains (current leases are
// finished), the second one stops them. Must be called before other threads exist. `config` is
// complete.
absl::Status Serve(const AgentConfig& config);

}  // namespace gq::agent
