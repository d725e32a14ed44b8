#include "common/rpc/session_program.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <string>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/log_format.h"

namespace gq::rpc {
namespace {

constexpr timespec kLookAround = {0, 100'000'000};

sigset_t EndSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void ErrorStreamReporter::Log(base::LogLevel level, std::string_view component,
                              std::string_view text) {
  const std::string line = base::FormatStoredLine(absl::Now(), level, component, text);
  (void)base::WriteAll(STDERR_FILENO, line, "standard error");
}

void BlockEndSignals() {
  const sigset_t signals = EndSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

SignalWatch::SignalWatch(AgentSession& session, base::Reporter& reporter)
    : thread_([&session, &reporter](const std::stop_token& stop) {
        const sigset_t signals = EndSignals();
        for (int count = 0; !stop.stop_requested();) {
          if (::sigtimedwait(&signals, nullptr, &kLookAround) <= 0) continue;
          if (count++ == 0) {
            reporter.Info("Agent", "draining: current work is finished, no new work is taken");
            session.Drain();
          } else {
            reporter.Warn("Agent", "stopping: current work is lost and done elsewhere");
            session.Stop();
          }
        }
      }) {}

std::filesystem::path SessionStateFolder(std::string_view server, std::string_view kind,
                                         std::string_view name) {
  constexpr std::string_view kUnix = "unix:";
  const std::filesystem::path place =
      server.starts_with(kUnix) ? std::filesystem::path(server.substr(kUnix.size())).parent_path()
                                : base::StateFolder();
  return place / kind / name;
}

}  // namespace gq::rpc
