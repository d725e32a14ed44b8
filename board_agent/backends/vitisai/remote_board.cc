#include "board_agent/backends/vitisai/remote_board.h"

#include <sys/wait.h>

#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/harness/tool_process.h"
#include "common/rpc/random_id.h"
#include "common/rpc/steady_time.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr int kConnectSeconds = 60;
constexpr absl::Duration kTransferLimit = absl::Minutes(30);
constexpr absl::Duration kCommandLimit = absl::Minutes(2);
constexpr int kSshFailed = 255;
constexpr int kBusy = 75;
// Lines of the script that runs on the board, told apart from the tool's by what no tool prints.
constexpr std::string_view kWaiting = "GQ-BOARD waiting";
constexpr std::string_view kLocked = "GQ-BOARD locked";

void Ignore(std::string_view /*line*/) {}

}  // namespace

std::string ShellQuote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

absl::StatusOr<SshTarget> ReadSshTarget(const BoardOptions& options) {
  SshTarget target;
  GQ_ASSIGN_OR_RETURN(target.destination, options.SafeWord("ssh"));
  GQ_ASSIGN_OR_RETURN(target.port, options.Number("ssh_port", target.port));
  GQ_ASSIGN_OR_RETURN(target.key_file, options.SafeWord("ssh_key"));
  GQ_ASSIGN_OR_RETURN(target.known_hosts, options.SafeWord("ssh_known_hosts"));
  GQ_ASSIGN_OR_RETURN(target.folder, options.SafeWord("ssh_folder", target.folder));
  GQ_ASSIGN_OR_RETURN(target.lock, options.SafeWord("ssh_lock", target.lock));
  GQ_ASSIGN_OR_RETURN(target.setup, options.SafeWord("ssh_setup", target.setup));
  GQ_ASSIGN_OR_RETURN(target.wait_seconds, options.Number("ssh_wait", target.wait_seconds));
  target.legacy_copy = options.Get("ssh_legacy_copy") == "yes";
  target.environment = options.Environment();
  return target;
}

std::vector<std::string> RemoteBoard::Options(bool copy) const {
  std::vector<std::string> options = {copy ? "-P" : "-p",
                                      StrCat(target_.port),
                                      "-o",
                                      "BatchMode=yes",
                                      "-o",
                                      "StrictHostKeyChecking=yes",
                                      "-o",
                                      StrCat("ConnectTimeout=", kConnectSeconds),
                                      "-o",
                                      "ServerAliveInterval=15",
                                      "-o",
                                      "PasswordAuthentication=no"};
  if (!target_.key_file.empty()) {
    options.insert(options.end(), {"-o", "IdentitiesOnly=yes", "-i", target_.key_file});
  }
  if (!target_.known_hosts.empty()) {
    options.insert(options.end(), {"-o", StrCat("UserKnownHostsFile=", target_.known_hosts)});
  }
  return options;
}

std::vector<std::string> RemoteBoard::Ssh() const {
  std::vector<std::string> arguments = {"ssh", "-T"};
  const std::vector<std::string> options = Options(false);
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(target_.destination);
  return arguments;
}

absl::Status RemoteBoard::Run(std::vector<std::string> arguments, absl::Duration time_limit,
                              const std::function<void(std::string_view)>& on_line,
                              const base::Reporter& reporter) const {
  harness::ToolCommand command;
  command.arguments = std::move(arguments);
  command.work_dir = scratch_;
  command.time_limit = time_limit;
  command.hold_input = true;
  GQ_ASSIGN_OR_RETURN(const harness::ToolExit exit, harness::RunTool(command, on_line, reporter));
  if (exit.ok()) return absl::OkStatus();
  const int code = WIFEXITED(exit.status) ? WEXITSTATUS(exit.status) : -1;
  const std::string said = exit.last_lines.empty() ? exit.Describe() : exit.last_lines;
  if (code == kBusy) {
    return MakeError(Reason::kBoardBusy,
                     StrCat(target_.destination, ": the board was not free within ",
                            target_.wait_seconds, " s (", target_.lock, ")"),
                     "Somebody works on it beside gq; try again later.");
  }
  if (code == kSshFailed) {
    return MakeError(Reason::kBoardFailed,
                     StrCat(target_.destination, " cannot be reached: ", said),
                     "Check host, key and known_hosts: ssh -o BatchMode=yes "
                     "-o StrictHostKeyChecking=yes HOST true.");
  }
  return MakeError(Reason::kBoardFailed, StrCat(target_.destination, ": ", said));
}

absl::Status RemoteBoard::Command(const std::string& command,
                                  const std::function<void(std::string_view)>& on_line,
                                  const base::Reporter& reporter) const {
  std::vector<std::string> arguments = Ssh();
  arguments.push_back(command);
  return Run(std::move(arguments), kCommandLimit, on_line, reporter);
}

absl::Status RemoteBoard::Copy(const std::string& from, const std::string& to,
                               const base::Reporter& reporter) const {
  std::vector<std::string> arguments = {"scp", "-q"};
  if (target_.legacy_copy) arguments.emplace_back("-O");
  const std::vector<std::string> options = Options(true);
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(from);
  arguments.push_back(to);
  return Run(std::move(arguments), kTransferLimit, Ignore, reporter);
}

// The tool runs in the background, in a session of its own; a second process waits for the end of
// the connection and ends it then, with all it started. Only the tool holds the lock.
std::string RemoteBoard::RunScript() const {
  std::string text = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\nmkdir -p results\n";
  base::StrAppend(&text, "if [ -f ", target_.setup, " ]; then . ", target_.setup,
                  " > /dev/null 2>&1; fi\n");
  for (const auto& [name, value] :
       {std::pair{"DEBUG_VAIML_PARTITION", "1"}, std::pair{"FXML_LOG_LEVEL", "1"},
        std::pair{"FLEXML_PRINT_VITISTOOLS_OUTPUT", "1"}, std::pair{"DEBUG_LOG_LEVEL", "info"}}) {
    base::StrAppend(&text, "export ", name, "=", value, "\n");
  }
  for (const auto& [name, value] : target_.environment) {
    base::StrAppend(&text, "export ", name, "=", ShellQuote(value), "\n");
  }
  base::StrAppend(&text, "exec 3<&0\nexec 9> ", target_.lock, " || exit 1\necho '", kWaiting,
                  "'\nflock -w ", target_.wait_seconds, " 9 || exit ", kBusy, "\necho '", kLocked,
                  "'\nsetsid sh -e ./tool.sh < /dev/null 3<&- &\ntool=$!\n"
                  "( exec 9>&- > /dev/null 2>&1; cat <&3; kill -TERM -$tool; sleep 3; "
                  "kill -KILL -$tool ) &\n"
                  "watch=$!\nwait $tool\nstatus=$?\nkill $watch 2> /dev/null\nexit $status\n");
  return text;
}

absl::StatusOr<RemoteRun> RemoteBoard::RunFolder(
    const fs::path& folder, const std::string& script, absl::Duration time_limit,
    const std::function<void(std::string_view)>& on_line, const base::Reporter& reporter) const {
  const std::string there = StrCat(target_.folder, "/", rpc::RandomUuid());
  const std::string archive = (scratch_ / "to_board.tar.gz").string();
  const std::string results = (scratch_ / "from_board.tar.gz").string();
  const auto tar = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tar");
    return Run(std::move(arguments), kTransferLimit, Ignore, reporter);
  };
  RemoteRun run;
  const auto work = [&]() -> absl::Status {
    absl::Duration start = rpc::SteadyNow();
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder / "run.sh", RunScript()));
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(folder / "tool.sh", script + "\n"));
    GQ_RETURN_IF_ERROR(tar({"-C", folder.string(), "-czf", archive, "."}));
    GQ_RETURN_IF_ERROR(Command(StrCat("umask 077 && mkdir -p ", there), Ignore, reporter));
    GQ_RETURN_IF_ERROR(
        Copy(archive, StrCat(target_.destination, ":", there, "/in.tar.gz"), reporter));
    GQ_RETURN_IF_ERROR(
        Command(StrCat("cd ", there, " && tar -xzf in.tar.gz && rm in.tar.gz"), Ignore, reporter));
    run.transfer_seconds = absl::ToDoubleSeconds(rpc::SteadyNow() - start);
    std::vector<std::string> arguments = Ssh();
    arguments.push_back(StrCat("sh ", there, "/run.sh"));
    absl::Duration waiting_since = rpc::SteadyNow();
    GQ_RETURN_IF_ERROR(Run(
        std::move(arguments), time_limit + absl::Seconds(target_.wait_seconds),
        [&](std::string_view line) {
          if (line == kWaiting) {
            waiting_since = rpc::SteadyNow();
          } else if (line == kLocked) {
            run.waiting_seconds = absl::ToDoubleSeconds(rpc::SteadyNow() - waiting_since);
          } else {
            on_line(line);
          }
        },
        reporter));
    start = rpc::SteadyNow();
    GQ_RETURN_IF_ERROR(
        Command(StrCat("cd ", there, " && tar -czf out.tar.gz results"), Ignore, reporter));
    GQ_RETURN_IF_ERROR(
        Copy(StrCat(target_.destination, ":", there, "/out.tar.gz"), results, reporter));
    GQ_RETURN_IF_ERROR(tar({"-C", folder.string(), "-xzf", results, "results"}));
    run.transfer_seconds += absl::ToDoubleSeconds(rpc::SteadyNow() - start);
    return absl::OkStatus();
  };
  const absl::Status status = work();
  // Also after a cancellation.
  base::NullReporter not_cancelled;
  Command(StrCat("rm -rf ", there), Ignore, not_cancelled).IgnoreError();
  GQ_RETURN_IF_ERROR(status);
  return run;
}

}  // namespace gq::agent
