#include "board_agent/serve.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "board_agent/backends/board_options.h"
#include "board_agent/board_pool.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/agent_session.h"
#include "common/rpc/channel.h"
#include "common/rpc/child_step_runner.h"

namespace gq::agent {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

// The agent's own log: stored lines on standard error.
class ErrorStreamReporter : public base::Reporter {
 public:
  void Log(base::LogLevel level, std::string_view component, std::string_view text) override {
    const std::string line = base::FormatStoredLine(absl::Now(), level, component, text);
    (void)base::WriteAll(STDERR_FILENO, line, "standard error");
  }
  void Report(const base::Progress&) override {}
  bool Cancelled() const override { return false; }
};

sigset_t EndSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  return signals;
}

// Until it is destroyed, the first signal drains the session and the next one stops it.
class SignalWatch {
 public:
  SignalWatch(rpc::AgentSession& session, base::Reporter& reporter)
      : thread_([&session, &reporter](const std::stop_token& stop) {
          const sigset_t signals = EndSignals();
          const timespec pause = {0, 100'000'000};
          for (int count = 0; !stop.stop_requested();) {
            if (::sigtimedwait(&signals, nullptr, &pause) <= 0) continue;
            if (count++ == 0) {
              reporter.Info("Agent", "draining: current work is finished, no new work is taken");
              session.Drain();
            } else {
              reporter.Warn("Agent", "stopping: current work is lost and done elsewhere");
              session.Stop();
            }
          }
        }) {}

 private:
  std::jthread thread_;
};

std::string HostName() {
  char host[256] = "";
  return ::gethostname(host, sizeof host - 1) == 0 ? host : "";
}

}  // namespace

absl::Status Serve(const AgentConfig& config) {
  // Before any thread exists, so that every thread leaves the signals to the watch.
  const sigset_t signals = EndSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  ErrorStreamReporter reporter;
  rpc::ChannelOptions channel_options;
  channel_options.address = config.server;
  channel_options.token_file = config.token_file;
  channel_options.ca_file = config.ca_file;
  channel_options.use = rpc::ChannelUse::kAgent;
  GQ_ASSIGN_OR_RETURN(std::shared_ptr<rpc::Channel> channel, rpc::Channel::Create(channel_options));
  GQ_ASSIGN_OR_RETURN(
      const std::unique_ptr<BoardPool> pool,
      BoardPool::Create(config.boards, absl::Seconds(config.health_interval), reporter));

  rpc::ChildStepRunnerOptions runner_options;
  GQ_ASSIGN_OR_RETURN(const std::string program, OwnProgram());
  runner_options.command = {program};
  runner_options.environment[kBoardsVariable] = BoardsToJson(config.boards);
  runner_options.limits.no_network =
      std::none_of(config.boards.begin(), config.boards.end(), [](const BoardSpec& board) {
        const absl::StatusOr<const Backend*> backend = FindBackend(board.backend);
        return backend.ok() && (*backend)->needs_network();
      });
  runner_options.limits.address_space_bytes = static_cast<int64_t>(config.memory_gib * kGib);
  rpc::ChildStepRunner runner(std::move(runner_options));

  rpc::AgentSessionOptions options;
  options.agent_id = config.name;
  options.version = GQ_VERSION;
  options.host = HostName();
  options.capabilities = pool->Capabilities();
  options.slots = config.slots;
  options.state_dir = config.state_dir;
  options.reporter = &reporter;
  rpc::AgentSession session(std::move(options), std::move(channel), &runner, pool.get());
  pool->set_on_change([&session] { session.Wake(); });
  pool->Start();
  reporter.Info("Agent", base::StrCat("gq-agent ", GQ_VERSION, " ", config.name, " with ",
                                      config.boards.size(), " boards, server ", config.server));
  const SignalWatch watch(session, reporter);
  return session.Run();
}

}  // namespace gq::agent
