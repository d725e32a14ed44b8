#include "common/harness/tool_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/child_setup.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"

extern char** environ;

namespace gq::harness {
namespace {

using base::FileDescriptor;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr int kPollMilliseconds = 50;
constexpr size_t kMaxLine = 16384;
constexpr size_t kLinesInMessage = 3;
constexpr size_t kReadBytes = 65536;

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    return MakeError(Reason::kInternal, StrCat("pipe: ", std::strerror(errno)));
  }
  return Pipe{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

std::vector<std::string> Environment(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!more.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(StrCat(name, "=", value));
  return all;
}

std::vector<std::string> Arguments(const ToolCommand& command) {
  if (command.activation_script.empty()) return command.arguments;
  // What the script prints is part of the log; the program takes the shell's place.
  std::vector<std::string> all = {"/bin/bash", "-c", R"(. "$1" || exit 126; shift; exec "$@")",
                                  "gq", command.activation_script.string()};
  all.insert(all.end(), command.arguments.begin(), command.arguments.end());
  return all;
}

void CloseAllBut(int keep) {
#ifdef SYS_close_range
  if (keep > 0) ::syscall(SYS_close_range, 0, keep - 1, 0);
  if (::syscall(SYS_close_range, keep + 1, ~0U, 0) == 0) return;
#endif
  for (int fd = 0; fd < 4096; ++fd) {
    if (fd != keep) ::close(fd);
  }
}

// Waits until the last writer of `alive` is gone, which is this process; then ends the group.
[[noreturn]] void RunGuard(pid_t group, int alive) {
  ::setsid();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
  CloseAllBut(alive);
  char byte;
  while (::read(alive, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(-group, SIGKILL);
  ::_exit(0);
}

// What the new process needs, prepared before fork: after it only async-signal-safe calls.
struct Prepared {
  char* const* arguments;
  char* const* environment;
  const char* work_dir;
  bool large_stack;
  int in;
  int out;
  int exec_error;
};

[[noreturn]] void RunChild(const Prepared& p) {
  base::BecomeGroupLeader();
  ::dup2(p.in, STDIN_FILENO);
  ::dup2(p.out, STDOUT_FILENO);
  ::dup2(p.out, STDERR_FILENO);
  if (p.large_stack) {
    struct rlimit limit;
    if (::getrlimit(RLIMIT_STACK, &limit) == 0) {
      limit.rlim_cur = limit.rlim_max;
      ::setrlimit(RLIMIT_STACK, &limit);
    }
  }
  if (::chdir(p.work_dir) == 0) ::execvpe(p.arguments[0], p.arguments, p.environment);
  base::ReportExecError(p.exec_error);
}

// Cuts bytes into lines.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}

  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n') {
        End();
      } else if (c != '\r' && line_.size() < kMaxLine) {
        line_ += c;
      }
    }
  }
  void Finish() {
    if (!line_.empty()) End();
  }
  std::string LastLines() const {
    return base::StrJoin(std::vector<std::string>(last_.begin(), last_.end()), " | ");
  }

 private:
  void End() {
    on_line_(line_);
    if (!line_.empty()) last_.push_back(line_.substr(0, 500));
    if (last_.size() > kLinesInMessage) last_.pop_front();
    line_.clear();
  }

  const std::function<void(std::string_view)>& on_line_;
  std::string line_;
  std::deque<std::string> last_;
};

class RunningTool {
 public:
  RunningTool(const ToolCommand& command, const base::Reporter& reporter)
      : command_(command), reporter_(reporter) {}
  ~RunningTool() { End(); }

  absl::Status Start() {
    if (!command_.log_file.empty()) {
      log_ = FileDescriptor(
          ::open(command_.log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (!log_.valid()) {
        return MakeError(Reason::kFileUnwritable,
                         StrCat(command_.log_file.string(), ": ", std::strerror(errno)));
      }
    }
    GQ_ASSIGN_OR_RETURN(Pipe out, MakePipe());
    GQ_ASSIGN_OR_RETURN(Pipe exec_error, MakePipe());
    GQ_ASSIGN_OR_RETURN(Pipe in, MakePipe());
    const FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::vector<std::string> argument_texts = Arguments(command_);
    const std::vector<std::string> environment_texts = Environment(command_.environment);
    const std::vector<char*> arguments = base::PointersTo(argument_texts);
    const std::vector<char*> environment = base::PointersTo(environment_texts);
    const Prepared prepared{arguments.data(),
                            environment.data(),
                            command_.work_dir.c_str(),
                            command_.large_stack,
                            command_.hold_input ? in.read.get() : null.get(),
                            out.write.get(),
                            exec_error.write.get()};
    pid_ = ::fork();
    if (pid_ < 0) return MakeError(Reason::kInternal, StrCat("fork: ", std::strerror(errno)));
    if (pid_ == 0) RunChild(prepared);
    ::setpgid(pid_, pid_);
    GQ_RETURN_IF_ERROR(StartGuard());
    if (command_.hold_input) in_ = std::move(in.write);
    out_ = std::move(out.read);
    exec_error.write.Close();
    const int error = base::ReadExecError(exec_error.read.get());
    if (error == 0) return absl::OkStatus();
    return MakeError(Reason::kToolMissing,
                     StrCat(argument_texts.front(), " cannot be started: ", std::strerror(error)),
                     "Check the path of the tool in the board's options.");
  }

  absl::StatusOr<ToolExit> Wait(const std::function<void(std::string_view)>& on_line) {
    const absl::Time end = absl::Now() + command_.time_limit;
    LineSplitter lines(on_line);
    bool open = true;
    siginfo_t ended{};
    for (;;) {
      if (reporter_.Cancelled()) {
        return MakeError(Reason::kCancelled, StrCat(Name(), " was cancelled"));
      }
      if (absl::Now() > end) {
        return MakeError(Reason::kTimeout, StrCat(Name(), " took longer than ",
                                                  absl::FormatDuration(command_.time_limit)));
      }
      if (open) {
        GQ_ASSIGN_OR_RETURN(open, ReadSome(lines));
      } else {
        ::usleep(kPollMilliseconds * 1000);
      }
      if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          ended.si_pid == pid_) {
        break;
      }
    }
    // What it printed last may still be in the pipe; processes that outlive it hold the pipe open.
    while (open && Readable(0)) {
      GQ_ASSIGN_OR_RETURN(open, ReadSome(lines));
    }
    lines.Finish();
    ToolExit exit;
    exit.status = End();
    exit.last_lines = lines.LastLines();
    return exit;
  }

 private:
  std::string Name() const {
    return std::filesystem::path(command_.arguments.front()).filename().string();
  }

  absl::Status StartGuard() {
    GQ_ASSIGN_OR_RETURN(Pipe alive, MakePipe());
    const int read = alive.read.get();
    const pid_t group = pid_;
    guard_ = ::fork();
    if (guard_ < 0) return MakeError(Reason::kInternal, StrCat("fork: ", std::strerror(errno)));
    if (guard_ == 0) RunGuard(group, read);
    alive_ = std::move(alive.write);
    return absl::OkStatus();
  }

  bool Readable(int milliseconds) const {
    pollfd poll_fd = {out_.get(), POLLIN, 0};
    return ::poll(&poll_fd, 1, milliseconds) > 0;
  }

  // False at the end of the output.
  absl::StatusOr<bool> ReadSome(LineSplitter& lines) {
    if (!Readable(kPollMilliseconds)) return true;
    char buffer[kReadBytes];
    const ssize_t n = ::read(out_.get(), buffer, sizeof buffer);
    if (n <= 0) return n < 0 && errno == EINTR;
    const std::string_view bytes(buffer, static_cast<size_t>(n));
    lines.Add(bytes);
    if (log_.valid()) {
      GQ_RETURN_IF_ERROR(base::WriteAll(log_.get(), bytes, command_.log_file.string()));
    }
    return true;
  }

  // Ends the group and the guard; the wait status of the tool. The tool is reaped last, so that the
  // number of its group stays its own until the guard is gone.
  int End() {
    int status = 0;
    if (pid_ > 0) ::kill(-pid_, SIGKILL);
    if (guard_ > 0) {
      ::kill(guard_, SIGKILL);
      while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    if (pid_ > 0) {
      while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
    }
    pid_ = guard_ = -1;
    return status;
  }

  const ToolCommand& command_;
  const base::Reporter& reporter_;
  pid_t pid_ = -1;
  pid_t guard_ = -1;
  FileDescriptor out_;
  FileDescriptor in_;
  FileDescriptor alive_;
  FileDescriptor log_;
};

}  // namespace

std::string ToolExit::Describe() const { return base::DescribeWaitStatus(status); }

absl::StatusOr<ToolExit> RunTool(const ToolCommand& command,
                                 const std::function<void(std::string_view)>& on_line,
                                 const base::Reporter& reporter) {
  if (command.arguments.empty()) {
    return MakeError(Reason::kToolMissing, "there is no program to start");
  }
  RunningTool tool(command, reporter);
  GQ_RETURN_IF_ERROR(tool.Start());
  return tool.Wait(on_line);
}

}  // namespace gq::harness
