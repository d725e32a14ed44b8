// What the programs that serve steps share, gq-worker and gq-agent: their own log and the signals
// that end them.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string_view>
#include <thread>

#include "common/base/reporter.h"
#include "common/rpc/agent_session.h"

namespace gq::rpc {

// The program's own log: stored lines (common/base/log_format.h) on standard error. Thread-safe.
class ErrorStreamReporter : public base::Reporter {
 public:
  void Log(base::LogLevel level, std::string_view component, std::string_view text) override;
  void Report(const base::Progress&) override {}
  bool Cancelled() const override { return false; }
};

// Keeps SIGTERM and SIGINT from this thread and all that it will start, so that SignalWatch gets
// them. To be called before any thread exists.
void BlockEndSignals();

// As long as it lives, the first SIGTERM or SIGINT drains the session and the next one stops it.
class SignalWatch {
 public:
  SignalWatch(AgentSession& session, base::Reporter& reporter);

 private:
  std::jthread thread_;
};

// Where a session keeps its state unless told otherwise: `KIND/NAME` beside the server's socket, or
// below the state folder (base::StateFolder) for a server that is reached over TCP.
std::filesystem::path SessionStateFolder(std::string_view server, std::string_view kind,
                                         std::string_view name);

}  // namespace gq::rpc
