#include "server/process/local_children.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/child_setup.h"
#include "common/base/text.h"
#include "spdlog/spdlog.h"

namespace gq::server {
namespace {

using base::StrCat;

std::string DescribeEnd(int status) {
  if (WIFEXITED(status)) return StrCat("exit status ", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) {
    return StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  }
  return StrCat("wait status ", status);
}

// Only calls that are safe after a fork of a process with threads.
[[noreturn]] void BecomeChild(char* const* arguments, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above.
  if (getppid() != parent) _exit(base::kExecFailed);
  base::BecomeGroupLeader();
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  // What the child says goes where the server's log goes.
  dup2(STDERR_FILENO, STDOUT_FILENO);
  execv(arguments[0], arguments);
  _exit(base::kExecFailed);
}

}  // namespace

class LocalChildren::Impl {
 public:
  Impl(std::vector<ChildCommand> commands, OnExit on_exit, ChildBackoff backoff)
      : on_exit_(std::move(on_exit)),
        backoff_(backoff),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (ChildCommand& command : commands) children_.push_back({.command = std::move(command)});
    thread_ = std::thread([this] { Loop(); });
  }

  ~Impl() {
    Stop();
    close(wake_);
  }

  void Drain() { Order(Mode::kDrain); }

  bool WaitUntilGone(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](Impl* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) { return self->gone_; },
            this),
        timeout);
  }

  void Stop() {
    Order(Mode::kStop);
    if (thread_.joinable()) thread_.join();
  }

  std::vector<std::pair<std::string, int>> Running() const {
    absl::MutexLock lock(&mutex_);
    return running_;
  }

 private:
  enum class Mode { kRun, kDrain, kStop };
  struct Child {
    ChildCommand command;
    pid_t pid = -1;
    int pidfd = -1;
    absl::Time started;
    absl::Time start_at = absl::InfinitePast();
    absl::Duration delay = absl::ZeroDuration();
    Mode told = Mode::kRun;
  };

  void Order(Mode mode) {
    {
      absl::MutexLock lock(&mutex_);
      mode_ = std::max(mode_, mode);
    }
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
  }

  Mode mode() const {
    absl::MutexLock lock(&mutex_);
    return mode_;
  }

  void Loop() {
    while (true) {
      const Mode now = mode();
      for (Child& child : children_) Attend(child, now);
      Publish(now);
      const bool any = std::any_of(children_.begin(), children_.end(),
                                   [](const Child& child) { return child.pid > 0; });
      if (now == Mode::kStop && !any) return;
      Wait();
      for (Child& child : children_) Reap(child);
    }
  }

  void Attend(Child& child, Mode now) {
    if (child.pid < 0) {
      if (now == Mode::kRun && absl::Now() >= child.start_at) Start(child);
      return;
    }
    if (now == child.told) return;
    child.told = now;
    kill(child.pid, now == Mode::kDrain ? SIGTERM : SIGKILL);
  }

  void Start(Child& child) {
    std::vector<char*> arguments;
    for (std::string& argument : child.command.arguments) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) BecomeChild(arguments.data(), parent);
    child.started = absl::Now();
    child.told = Mode::kRun;
    if (pid < 0) {
      spdlog::error("cannot start {}: {}", child.command.name, std::strerror(errno));
      Delay(child);
      return;
    }
    child.pid = pid;
    child.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    spdlog::info("started agent={} pid={}", child.command.name, pid);
  }

  void Delay(Child& child) {
    const bool healthy = absl::Now() - child.started >= backoff_.healthy;
    child.delay = healthy || child.delay == absl::ZeroDuration()
                      ? backoff_.first
                      : std::min(child.delay * 2, backoff_.longest);
    child.start_at = absl::Now() + child.delay;
  }

  void Reap(Child& child) {
    if (child.pid < 0) return;
    int status = 0;
    if (waitpid(child.pid, &status, WNOHANG) != child.pid) return;
    // What it started and left behind goes with it.
    kill(-child.pid, SIGKILL);
    if (child.pidfd >= 0) close(child.pidfd);
    child.pid = -1;
    child.pidfd = -1;
    const bool wanted = child.told != Mode::kRun;
    const std::string how = DescribeEnd(status);
    Delay(child);
    spdlog::log(wanted ? spdlog::level::info : spdlog::level::warn, "ended agent={} how={}",
                child.command.name, how);
    on_exit_(child.command.name, how, wanted);
  }

  // Until a child ends, an order comes, or a child is due.
  void Wait() {
    std::vector<pollfd> files = {{.fd = wake_, .events = POLLIN, .revents = 0}};
    absl::Time due = absl::Now() + absl::Seconds(1);
    for (const Child& child : children_) {
      if (child.pidfd >= 0) files.push_back({.fd = child.pidfd, .events = POLLIN, .revents = 0});
      if (child.pid < 0) due = std::min(due, child.start_at);
    }
    const auto timeout = std::clamp<int64_t>(absl::ToInt64Milliseconds(due - absl::Now()), 1, 1000);
    poll(files.data(), files.size(), static_cast<int>(timeout));
    uint64_t count = 0;
    (void)!read(wake_, &count, sizeof count);
  }

  void Publish(Mode now) {
    absl::MutexLock lock(&mutex_);
    running_.clear();
    for (const Child& child : children_) {
      if (child.pid > 0) running_.emplace_back(child.command.name, child.pid);
    }
    gone_ = now != Mode::kRun && running_.empty();
  }

  const OnExit on_exit_;
  const ChildBackoff backoff_;
  const int wake_;
  std::vector<Child> children_;  // of the thread alone
  mutable absl::Mutex mutex_;
  Mode mode_ ABSL_GUARDED_BY(mutex_) = Mode::kRun;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<std::string, int>> running_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

LocalChildren::LocalChildren(std::vector<ChildCommand> commands, OnExit on_exit,
                             ChildBackoff backoff)
    : impl_(std::make_unique<Impl>(std::move(commands), std::move(on_exit), backoff)) {}
LocalChildren::~LocalChildren() = default;
void LocalChildren::Drain() { impl_->Drain(); }
bool LocalChildren::WaitUntilGone(absl::Duration timeout) { return impl_->WaitUntilGone(timeout); }
void LocalChildren::Stop() { impl_->Stop(); }
std::vector<std::pair<std::string, int>> LocalChildren::Running() const { return impl_->Running(); }

}  // namespace gq::server
