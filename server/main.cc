// gq-server.
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "server/process/service_notify.h"
#include "server/service.h"
#include "server/settings.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace gq::server {
namespace {

using base::StrCat;

constexpr absl::Duration kLookAround = absl::Seconds(5);

int PrintError(const absl::Status& status) {
  const base::Reason reason = base::GetReason(status);
  const std::string message(status.message());
  std::fprintf(stderr, "error: %s (%s)\n", message.c_str(),
               std::string(base::ReasonName(reason)).c_str());
  const std::string hint = base::GetHint(status);
  if (!hint.empty()) std::fprintf(stderr, "hint: %s\n", hint.c_str());
  return base::GetReasonInfo(reason).exit_code;
}

void SetUpLog(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("gq-server");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

std::filesystem::path ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// The children that the settings ask for and that are installed beside this program.
std::vector<ChildCommand> ChildCommands(const Settings& settings, const std::string& server) {
  const std::filesystem::path folder = ProgramFolder();
  const std::filesystem::path state = settings.service.data / "agents";
  std::vector<ChildCommand> commands;
  const auto add = [&](const std::string& program, const std::string& name,
                       std::vector<std::string> more) {
    const std::string path = (folder / program).string();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      spdlog::warn("{} is not there, so there is no {}", path, name);
      return;
    }
    ChildCommand& command = commands.emplace_back();
    command.name = name;
    command.arguments = {path,     "serve", "--server",    server,
                         "--name", name,    "--state-dir", (state / name).string()};
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  };
  for (int i = 1; i <= settings.workers; ++i) add("gq-worker", StrCat("worker-", i), {});
  if (settings.sim_boards) add("gq-agent", "simulator", {"--backend", "sim"});
  return commands;
}

// Waits for SIGTERM or SIGINT, and tells the service manager meanwhile that all is well.
void WaitForSignal(Service& service, const sigset_t& signals) {
  const absl::Duration interval = std::min(kLookAround, WatchdogInterval().value_or(kLookAround));
  const timespec timeout = absl::ToTimespec(interval);
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &timeout);
    if (signal > 0) return;
    const absl::Status health = service.CheckHealth();
    if (health.ok()) {
      NotifyServiceManager("WATCHDOG=1");
    } else {
      spdlog::error("the ledger cannot be written: {}", std::string(health.message()));
    }
  }
}

int Run(int argc, const char* const* argv) {
  // Signals are waited for by this thread alone; a reader that went away is an error of its call.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // The errors of the library come back as ours; its own lines would only repeat them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);

  const absl::StatusOr<ParsedSettings> parsed = ReadSettings(argc, argv);
  if (!parsed.ok()) return PrintError(parsed.status());
  if (parsed->exit_status) return *parsed->exit_status;
  Settings settings = parsed->settings;
  SetUpLog(settings.log_level);
  std::error_code error;
  settings.service.data = std::filesystem::absolute(settings.service.data, error);
  settings.service.socket = std::filesystem::absolute(settings.service.socket, error);

  if (!settings.plugins.empty()) {
    const std::string plugins = std::filesystem::absolute(settings.plugins, error).string();
    setenv("GQ_PLUGINS", plugins.c_str(), /*overwrite=*/1);  // the workers inherit it
  }

  std::vector<ChildCommand> children =
      ChildCommands(settings, StrCat("unix:", settings.service.socket.string()));
  std::vector<std::string> names;
  for (const ChildCommand& child : children) names.push_back(child.name);
  const base::SystemClock clock;
  auto service = Service::Start(settings.service, names, clock);
  if (!service.ok()) return PrintError(service.status());
  (*service)->StartChildren(std::move(children));
  spdlog::info("ready version={} data={} local={} listen={}", GQ_VERSION,
               (*service)->data().string(), (*service)->local_address(),
               (*service)->listen_address());
  NotifyServiceManager("READY=1");
  WaitForSignal(**service, signals);

  spdlog::info("stopping");
  NotifyServiceManager("STOPPING=1");
  (*service)->Drain(settings.drain_timeout);
  (*service)->Stop();
  service->reset();
  spdlog::info("stopped");
  return 0;
}

}  // namespace
}  // namespace gq::server

int main(int argc, char** argv) { return gq::server::Run(argc, argv); }
