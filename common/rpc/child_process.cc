#include "common/rpc/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "common/base/child_setup.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/step_channel.h"

namespace gq::rpc {
namespace {

using base::MakeError;
using base::Reason;

// Ends that the child uses stay clear of the descriptors they are moved to.
constexpr int kLowestChildFd = 10;

struct Ends {
  base::FileDescriptor parent;
  base::FileDescriptor child;
};

absl::Status KernelError(std::string_view what) {
  return MakeError(Reason::kInternal, base::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<Ends> Move(int parent, int child) {
  Ends ends{base::FileDescriptor(parent), base::FileDescriptor()};
  const base::FileDescriptor original(child);
  ends.child = base::FileDescriptor(::fcntl(child, F_DUPFD_CLOEXEC, kLowestChildFd));
  if (!ends.child.valid()) return KernelError("dup");
  return ends;
}

absl::StatusOr<Ends> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return KernelError("pipe");
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return Move(fds[0], fds[1]);
}

absl::StatusOr<Ends> MakeEventChannel() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return KernelError("socketpair");
  }
  return Move(fds[0], fds[1]);
}

void SetLimit(int resource, int64_t value) {
  if (value <= 0) return;
  struct rlimit limit;
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(static_cast<rlim_t>(value), limit.rlim_max);
  // With the CPU time the soft limit comes first, so that the cause can be told.
  const rlim_t spare = resource == RLIMIT_CPU ? 5 : 0;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_cur + spare, limit.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

// What the new process needs, prepared before fork: after it only async-signal-safe calls.
struct Prepared {
  char* const* arguments;
  char* const* environment;
  const char* work_dir;
  const ChildLimits* limits;
  pid_t parent;
  int in;
  int out;
  int err;
  int events;
  int exec_error;  // where a failed exec reports its errno
};

void DropNetwork() {
  if (::unshare(CLONE_NEWNET) == 0) return;
  (void)::unshare(CLONE_NEWUSER | CLONE_NEWNET);
}

void CloseAbove(int last) {
  // Keeps the descriptor that reports a failed exec; it closes itself on success.
#ifdef SYS_close_range
  constexpr unsigned kCloseOnExec = 1U << 2;
  if (::syscall(SYS_close_range, last + 1, ~0U, kCloseOnExec) == 0) return;
#endif
  for (int fd = last + 1; fd < 4096; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

[[noreturn]] void RunChild(const Prepared& p) {
  base::BecomeGroupLeader();

  ::dup2(p.in, STDIN_FILENO);
  ::dup2(p.out, STDOUT_FILENO);
  ::dup2(p.err, STDERR_FILENO);
  ::dup2(p.events, kStepEventFd);
  CloseAbove(kStepEventFd);

  struct rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  SetLimit(RLIMIT_AS, p.limits->address_space_bytes);
  SetLimit(RLIMIT_CPU, p.limits->cpu_seconds);
  SetLimit(RLIMIT_FSIZE, p.limits->file_bytes);
  SetLimit(RLIMIT_NOFILE, p.limits->open_files);
  if (p.limits->no_network) DropNetwork();
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // After the change of namespaces, which takes it back.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != p.parent) ::_exit(base::kExecFailed);

  if (::chdir(p.work_dir) == 0) ::execve(p.arguments[0], p.arguments, p.environment);
  base::ReportExecError(p.exec_error);
}

}  // namespace

bool ChildExit::exited() const { return WIFEXITED(status); }
int ChildExit::exit_code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
int ChildExit::signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }

std::string ChildExit::Describe() const {
  std::string text = base::DescribeWaitStatus(status);
  if (signal() == SIGKILL) text += " (out of memory, or killed by hand)";
  return text;
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildCommand& command) {
  GQ_ASSIGN_OR_RETURN(Ends out, MakePipe());
  GQ_ASSIGN_OR_RETURN(Ends err, MakePipe());
  GQ_ASSIGN_OR_RETURN(Ends exec_error, MakePipe());
  GQ_ASSIGN_OR_RETURN(Ends events, MakeEventChannel());
  const base::FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return KernelError("/dev/null");
  const base::FileDescriptor in(::fcntl(null.get(), F_DUPFD_CLOEXEC, kLowestChildFd));
  if (!in.valid()) return KernelError("dup");

  const std::vector<char*> arguments = base::PointersTo(command.arguments);
  const std::vector<char*> environment = base::PointersTo(command.environment);
  const Prepared prepared{arguments.data(),      environment.data(), command.work_dir.c_str(),
                          &command.limits,       ::getpid(),         in.get(),
                          out.child.get(),       err.child.get(),    events.child.get(),
                          exec_error.child.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return KernelError("fork");
  if (pid == 0) RunChild(prepared);

  ::setpgid(pid, pid);
  ChildProcess child;
  child.pid_ = pid;
  child.out_ = std::move(out.parent);
  child.err_ = std::move(err.parent);
  child.events_ = std::move(events.parent);
  exec_error.child.Close();
  ::fcntl(exec_error.parent.get(), F_SETFL, 0);
  if (const int error = base::ReadExecError(exec_error.parent.get()); error != 0) {
    return MakeError(
        Reason::kToolMissing,
        base::StrCat(command.arguments.front(), " cannot be executed: ", std::strerror(error)),
        "Check the installation of gq.");
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      reaped_(other.reaped_),
      exit_(other.exit_),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      events_(std::move(other.events_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  if (!reaped_) {
    while (::waitpid(pid_, &exit_.status, 0) < 0 && errno == EINTR) {
    }
  }
}

void ChildProcess::Signal(int signal) { ::kill(-pid_, signal); }

bool ChildProcess::Poll(ChildExit& exit) {
  if (!reaped_) {
    const pid_t pid = ::waitpid(pid_, &exit_.status, WNOHANG);
    reaped_ = pid == pid_ || (pid < 0 && errno == ECHILD);
  }
  exit = exit_;
  return reaped_;
}

}  // namespace gq::rpc
