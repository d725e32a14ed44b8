#include "server/worker/serve.h"

#include <pthread.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/agent_session.h"
#include "common/rpc/channel.h"
#include "common/rpc/child_step_runner.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr double kGib = 1024.0 * 1024 * 1024;

// Stored log lines of the worker itself on standard error.
class StderrReporter : public base::Reporter {
 public:
  void Log(base::LogLevel level, std::string_view component, std::string_view text) override {
    const std::string line = base::FormatStoredLine(absl::Now(), level, component, text);
    (void)base::WriteAll(STDERR_FILENO, line, "standard error");
  }
  void Report(const base::Progress&) override {}
  bool Cancelled() const override { return false; }
};

std::string HostName() {
  char host[256] = "";
  return gethostname(host, sizeof host - 1) == 0 ? host : "";
}

fs::path DefaultStateDir(const ServeOptions& options) {
  constexpr std::string_view kUnix = "unix:";
  if (options.server.starts_with(kUnix)) {
    const fs::path socket = options.server.substr(kUnix.size());
    return socket.parent_path() / "workers" / options.name;
  }
  fs::path base = "/var/lib/gq";
  if (geteuid() != 0) {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    base = state != nullptr && *state != '\0' ? fs::path(state) / "gq"
           : home != nullptr                  ? fs::path(home) / ".local/state/gq"
                                              : fs::path("gq");
  }
  return base / "workers" / options.name;
}

int64_t AddressSpaceLimit(const ServeOptions& options) {
  if (options.memory_gib > 0) return static_cast<int64_t>(options.memory_gib * kGib);
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return 0;
  // Mapped model files and allocator reserves count as address space too, memory or not.
  const double memory = static_cast<double>(info.totalram) * info.mem_unit;
  return static_cast<int64_t>(memory * 0.75 + 8 * kGib);
}

absl::StatusOr<std::string> OwnProgram() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    return MakeError(Reason::kInternal, StrCat("/proc/self/exe: ", error.message()));
  }
  return program.string();
}

sigset_t TerminationSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Turns the first signal into a drain and the second into a stop, until it goes out of scope.
class SignalWatch {
 public:
  explicit SignalWatch(rpc::AgentSession& session) {
    thread_ = std::thread([this, &session] {
      const sigset_t signals = TerminationSignals();
      const timespec pause = {0, 100'000'000};
      int count = 0;
      while (!over_) {
        if (sigtimedwait(&signals, nullptr, &pause) <= 0) continue;
        if (count++ == 0) {
          session.Drain();
        } else {
          session.Stop();
        }
      }
    });
  }
  ~SignalWatch() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace

void AddServeFlags(CLI::App& command, ServeOptions& options) {
  command.add_option("--server", options.server, "Server: unix:PATH or HOST:PORT.")
      ->type_name("ADDRESS")
      ->required();
  command
      .add_option("--name", options.name, "Name of this worker, unique on the server. [HOST-PID]")
      ->type_name("NAME");
  command
      .add_option("--state-dir", options.state_dir,
                  "Folder for leases, logs and cached inputs. [workers/NAME beside the socket, or "
                  "below the state folder]")
      ->type_name("PATH");
  command
      .add_option("--token-file", options.token_file,
                  "File with the bearer token, for a server that is reached over TCP. [none]")
      ->type_name("PATH");
  command.add_option("--ca-file", options.ca_file, "Certificate authorities (PEM) for TLS. [none]")
      ->type_name("PATH");
  command.add_option("--slots", options.slots, "Steps done at once. [1]")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  command
      .add_option("--memory", options.memory_gib,
                  "GiB of address space of a step. [three quarters of the memory, and 8]")
      ->type_name("GIB")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--cpu-seconds", options.cpu_seconds, "CPU time of a step, 0 for no limit. [0]")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--file-size", options.file_gib, "GiB of the largest file a step may write. [64]")
      ->type_name("GIB")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--onnxruntime", options.onnxruntime,
                  "ONNX Runtime library to use. [GQ_ONNXRUNTIME, or the bundled one]")
      ->type_name("PATH");
  command.add_flag("--allow-network", options.network,
                   "Let steps use the network. [off, where the kernel allows it]");
}

absl::Status Serve(const ServeOptions& given) {
  ServeOptions options = given;
  if (options.name.empty()) options.name = StrCat(HostName(), "-", getpid());
  // Before any thread exists, so that every thread leaves the signals to the watch.
  const sigset_t signals = TerminationSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  rpc::ChannelOptions channel_options;
  channel_options.address = options.server;
  channel_options.token_file = options.token_file;
  channel_options.ca_file = options.ca_file;
  channel_options.use = rpc::ChannelUse::kAgent;
  GQ_ASSIGN_OR_RETURN(std::shared_ptr<rpc::Channel> channel, rpc::Channel::Create(channel_options));

  rpc::ChildStepRunnerOptions runner_options;
  GQ_ASSIGN_OR_RETURN(const std::string program, OwnProgram());
  runner_options.command = {program};
  runner_options.limits.address_space_bytes = AddressSpaceLimit(options);
  runner_options.limits.cpu_seconds = options.cpu_seconds;
  runner_options.limits.file_bytes = static_cast<int64_t>(options.file_gib * kGib);
  runner_options.limits.no_network = !options.network;
  if (!options.onnxruntime.empty()) {
    std::error_code error;
    runner_options.environment["GQ_ONNXRUNTIME"] =
        fs::absolute(options.onnxruntime, error).string();
  }
  // --engine quark (quark_engine.h).
  runner_options.inherit.push_back("GQ_QUARK_PYTHON");
  runner_options.inherit.push_back("GQ_QUARK_ACTIVATION_SCRIPTS");
  rpc::ChildStepRunner runner(std::move(runner_options));

  StderrReporter reporter;
  rpc::AgentSessionOptions session_options;
  session_options.agent_id = options.name;
  session_options.version = GQ_VERSION;
  session_options.host = HostName();
  session_options.capabilities = {"cpu"};
  session_options.slots = options.slots;
  session_options.state_dir =
      options.state_dir.empty() ? DefaultStateDir(options) : fs::path(options.state_dir);
  session_options.reporter = &reporter;
  GQ_RETURN_IF_ERROR(base::MakeFolder(session_options.state_dir));
  rpc::AgentSession session(std::move(session_options), std::move(channel), &runner);
  const SignalWatch watch(session);
  return session.Run();
}

}  // namespace gq::worker
