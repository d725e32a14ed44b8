#include "common/rpc/child_step_runner.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/child_process.h"
#include "common/rpc/status_mapping.h"
#include "common/rpc/step_channel.h"
#include "google/protobuf/any.pb.h"
#include "google/rpc/status.pb.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;

constexpr size_t kMaxLineBytes = 16 << 10;
constexpr char kOutputComponent[] = "Output";
constexpr int kWakeMilliseconds = 100;
// Between the end of the pipes and the end of the process.
constexpr int kReapMilliseconds = 2;

// Cuts a stream of bytes into stored log lines.
class LineCollector {
 public:
  explicit LineCollector(bool stored_form) : stored_form_(stored_form) {}

  void Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const std::string_view piece = bytes.substr(0, end);
      const size_t room = kMaxLineBytes - line_.size();
      line_.append(piece.substr(0, room));
      cut_ |= piece.size() > room;
      if (end == std::string_view::npos) return;
      EndLine();
      bytes.remove_prefix(end + 1);
    }
  }

  void EndLine() {
    if (cut_) line_ += " [cut]";
    if (stored_form_ && base::ParseStoredLine(line_)) {
      lines_ += line_;
      lines_ += '\n';
    } else if (!line_.empty()) {
      lines_ += base::FormatStoredLine(absl::Now(), LevelOf(line_), kOutputComponent, line_);
    }
    line_.clear();
    cut_ = false;
  }

  std::string TakeLines() { return std::exchange(lines_, {}); }

 private:
  static base::LogLevel LevelOf(const std::string& line) {
    const std::string lower = absl::AsciiStrToLower(line);
    return absl::StrContains(lower, "warn") || absl::StrContains(lower, "error")
               ? base::LogLevel::kWarn
               : base::LogLevel::kInfo;
  }

  const bool stored_form_;
  bool cut_ = false;
  std::string line_;
  std::string lines_;
};

// Follows one child from its start to its end.
class ChildWatch {
 public:
  ChildWatch(ChildProcess& child, StepEvents& events, std::stop_token stop,
             absl::Duration kill_delay)
      : child_(child), events_(events), stop_(std::move(stop)), kill_delay_(kill_delay) {}

  ChildExit WaitForEnd() {
    base::FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::stop_callback on_stop(stop_, [&wake] {
      const uint64_t one = 1;
      (void)!::write(wake.get(), &one, sizeof one);
    });
    ChildExit exit;
    while (!child_.Poll(exit)) {
      Terminate();
      pollfd fds[] = {{out_open_ ? child_.out() : -1, POLLIN, 0},
                      {err_open_ ? child_.err() : -1, POLLIN, 0},
                      {channel_open_ ? child_.events() : -1, POLLIN, 0},
                      {stopping_ ? -1 : wake.get(), POLLIN, 0}};
      const bool pipes_open = out_open_ || err_open_;
      ::poll(fds, std::size(fds), pipes_open ? kWakeMilliseconds : kReapMilliseconds);
      Drain();
      if (fds[2].revents != 0) ReadEvents();
    }
    // What the group left running would hold the work folder and the pipes.
    child_.Signal(SIGKILL);
    Drain();
    out_.EndLine();
    err_.EndLine();
    PassLines();
    if (channel_open_) DrainEvents();
    return exit;
  }

 private:
  void Terminate() {
    if (!stop_.stop_requested()) return;
    const absl::Time now = absl::Now();
    if (!stopping_) {
      stopping_ = true;
      kill_time_ = now + kill_delay_;
      child_.Signal(SIGTERM);
    } else if (now >= kill_time_) {
      child_.Signal(SIGKILL);
    }
  }

  void Drain() {
    Drain(child_.out(), out_open_, out_);
    Drain(child_.err(), err_open_, err_);
    PassLines();
  }

  void PassLines() {
    std::string lines = out_.TakeLines() + err_.TakeLines();
    if (!lines.empty()) events_.Log(lines);
  }

  static void Drain(int fd, bool& open, LineCollector& lines) {
    char buffer[1 << 16];
    // Bounded, so that a chatty child does not keep the caller from its other duties.
    for (int i = 0; open && i < 16; ++i) {
      const ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n > 0) {
        lines.Add({buffer, static_cast<size_t>(n)});
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        open = false;
      } else {
        return;
      }
    }
  }

  void DrainEvents() {
    char buffer[1 << 16];
    ssize_t n;
    while ((n = ::recv(child_.events(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
      frames_.append(buffer, static_cast<size_t>(n));
    }
    HandleFrames(/*answer=*/false);
  }

  void ReadEvents() {
    char buffer[1 << 16];
    const ssize_t n = ::recv(child_.events(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      channel_open_ = false;
      return;
    }
    frames_.append(buffer, static_cast<size_t>(n));
    HandleFrames(/*answer=*/true);
  }

  void HandleFrames(bool answer) {
    std::string message;
    bool bad = false;
    while (DecodeFrame(frames_, message, bad)) {
      google::protobuf::Any any;
      gq::v1::StepProgress progress;
      gq::v1::Iteration iteration;
      if (!any.ParseFromString(message)) {
        bad = true;
        break;
      }
      if (any.UnpackTo(&progress)) {
        events_.Progress(progress);
      } else if (any.UnpackTo(&iteration)) {
        const absl::Status status = events_.Iteration(iteration);
        if (answer) Answer(status);
      }
    }
    // A child that talks nonsense is not listened to any more.
    if (bad) channel_open_ = false;
  }

  void Answer(const absl::Status& status) {
    google::rpc::Status reply;
    reply.set_code(status.raw_code());
    reply.set_message(std::string(base::FromAbsl(status.message())));
    const std::string frame = EncodeFrame(reply.SerializeAsString());
    (void)!::send(child_.events(), frame.data(), frame.size(), MSG_NOSIGNAL);
  }

  ChildProcess& child_;
  StepEvents& events_;
  const std::stop_token stop_;
  const absl::Duration kill_delay_;
  LineCollector out_{/*stored_form=*/true};
  LineCollector err_{/*stored_form=*/false};
  std::string frames_;
  bool out_open_ = true;
  bool err_open_ = true;
  bool channel_open_ = true;
  bool stopping_ = false;
  absl::Time kill_time_;
};

std::vector<std::string> Environment(const ChildStepRunnerOptions& options,
                                     const fs::path& work_dir) {
  std::map<std::string, std::string> variables = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", work_dir.string()},
      {"TMPDIR", (work_dir / "tmp").string()},
      {"LANG", "C.UTF-8"},
      {kStepEventFdVariable, base::StrCat(kStepEventFd)}};
  if (const char* path = std::getenv("PATH")) variables["PATH"] = path;
  for (const std::string& name : options.inherit) {
    if (const char* value = std::getenv(name.c_str())) variables[name] = value;
  }
  for (const auto& [name, value] : options.environment) variables[name] = value;
  std::vector<std::string> list;
  for (const auto& [name, value] : variables) list.push_back(base::StrCat(name, "=", value));
  return list;
}

// A limit that was hit is the model's doing, and the same on every machine.
std::optional<absl::Status> LimitThatWasHit(const ChildExit& exit) {
  if (exit.signal() == SIGXCPU) {
    return MakeError(Reason::kResourceLimit, "the step used more CPU time than it may",
                     "Use fewer samples, or ask for a higher limit.");
  }
  if (exit.signal() == SIGXFSZ) {
    return MakeError(Reason::kResourceLimit, "the step wrote a file larger than it may",
                     "Ask for a higher limit.");
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<gq::v1::StepResult> ChildStepRunner::Run(const gq::v1::Lease& lease,
                                                        const fs::path& work_dir,
                                                        StepEvents& events, std::stop_token stop) {
  GQ_RETURN_IF_ERROR(base::MakeFolder(work_dir / "tmp"));
  GQ_RETURN_IF_ERROR(base::MakeFolder(work_dir / "out"));
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(work_dir / "lease.pb", lease.SerializeAsString()));

  ChildCommand command;
  command.arguments = options_.command;
  command.arguments.push_back("step");
  command.arguments.push_back(work_dir.string());
  command.environment = Environment(options_, work_dir);
  command.work_dir = work_dir;
  command.limits = options_.limits;
  GQ_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command));
  const ChildExit exit = ChildWatch(child, events, stop, options_.kill_delay).WaitForEnd();

  gq::v1::StepResult result;
  const absl::StatusOr<std::string> bytes = base::ReadFile(work_dir / "result.pb", 256 << 20);
  if (bytes.ok() && result.ParseFromString(*bytes)) return result;
  if (const auto limit = LimitThatWasHit(exit)) {
    result.set_state(gq::v1::ATTEMPT_STATE_FAILED);
    *result.mutable_failure() = ToFailure(*limit);
    return result;
  }
  return MakeError(Reason::kWorkerLost,
                   base::StrCat("the process of the step ", exit.Describe(), " without a result"));
}

}  // namespace gq::rpc
