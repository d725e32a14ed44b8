#include "client/cli/local_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/cli/service_client.h"
#include "common/base/child_setup.h"
#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr absl::Duration kStartTimeout = absl::Seconds(30);
constexpr absl::Duration kStopTimeout = absl::Seconds(15);
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr size_t kLogTail = 2000;

// Runs in the child between fork and exec: only calls that are safe there.
[[noreturn]] void BecomeServer(const std::vector<char*>& arguments, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  base::BecomeGroupLeader();  // Ctrl-C is for the client, which cancels the job first
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  const int input = open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  execv(arguments[0], arguments.data());
  _exit(base::kExecFailed);
}

}  // namespace

fs::path FindProgram(const std::string& name) {
  if (const auto self = base::OwnProgram(); self.ok()) {
    const fs::path neighbour = self->parent_path() / name;
    if (access(neighbour.c_str(), X_OK) == 0) return neighbour;
  }
  const char* path = std::getenv("PATH");
  if (path == nullptr) return {};
  for (std::string_view folder : base::StrSplit(path, ':')) {
    const fs::path candidate = fs::path(folder) / name;
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(std::stop_token stop) {
  const fs::path program = FindProgram("gq-server");
  if (program.empty()) {
    return MakeError(Reason::kToolMissing, "gq-server is neither beside gq nor on PATH",
                     "install it, or use a running server with --server");
  }
  GQ_ASSIGN_OR_RETURN(base::TemporaryFolder temporary, base::TemporaryFolder::Make("gq-local-"));
  const std::string folder = temporary.path().string();
  const std::vector<std::string> words = {program.string(), "--data",   folder, "--socket",
                                          folder + "/s",    "--listen", "none"};
  const std::vector<char*> arguments = base::PointersTo(words);
  const int log = open((folder + "/server.log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) BecomeServer(arguments, log, parent);
  if (log >= 0) close(log);
  std::unique_ptr<LocalServer> server(new LocalServer(std::move(temporary), process));
  if (process < 0) return MakeError(Reason::kResourceLimit, "cannot start another process");
  GQ_RETURN_IF_ERROR(server->WaitUntilReady(stop));
  return server;
}

std::string LocalServer::address() const {
  return StrCat("unix:", (folder_.path() / "s").string());
}

bool LocalServer::HasExited() {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == process_) process_ = -1;
  return process_ <= 0;
}

absl::Status LocalServer::WaitUntilReady(std::stop_token stop) {
  const absl::Time deadline = absl::Now() + kStartTimeout;
  rpc::ChannelOptions options;
  options.address = address();
  while (!HasExited() && absl::Now() < deadline) {
    if (stop.stop_requested()) return MakeError(Reason::kCancelled, "interrupted");
    std::error_code error;
    if (fs::exists(folder_.path() / "s", error)) {
      GQ_ASSIGN_OR_RETURN(auto channel, rpc::Channel::Create(options));
      ServiceClient client(std::move(channel));
      if (client.Call(&gq::v1::AdminService::Stub::GetStatus, gq::v1::GetStatusRequest()).ok()) {
        return absl::OkStatus();
      }
    }
    absl::SleepFor(kPollInterval);
  }
  std::string log = base::ReadFile(folder_.path() / "server.log").value_or("");
  if (log.size() > kLogTail) log.erase(0, log.size() - kLogTail);
  return MakeError(Reason::kServerUnreachable, StrCat("the private gq-server did not start: ", log),
                   "run gq-server by hand to see why");
}

LocalServer::~LocalServer() {
  if (!HasExited()) {
    kill(process_, SIGTERM);
    const absl::Time deadline = absl::Now() + kStopTimeout;
    while (!HasExited() && absl::Now() < deadline) absl::SleepFor(kPollInterval);
    if (process_ > 0) {
      kill(-process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
}

}  // namespace gq::cli
