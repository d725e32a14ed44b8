// A board at the other end of ssh: a folder of files is taken there, a command runs in it while the
// board is locked, results come back (VE2 workflow, h.1 and h.5).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "board_agent/backends/board_options.h"
#include "common/base/reporter.h"

namespace gq::agent {

// How to get there. Keys only, the host's key must be known.
struct SshTarget {
  std::string destination;  // USER@HOST
  int port = 22;
  std::string key_file;
  std::string known_hosts;  // file; empty for ssh's own
  std::string folder = "/tmp/gq";
  std::string lock = "/tmp/gq-board.lock";
  int wait_seconds = 600;  // for the lock
  std::string setup = "/opt/xilinx/xrt/setup.sh";
  bool legacy_copy = false;  // scp -O, for boards without an SFTP server
  std::map<std::string, std::string> environment;
};

// From a board's options `ssh`, `ssh_port`, `ssh_key`, `ssh_known_hosts`, `ssh_folder`, `ssh_lock`,
// `ssh_wait`, `ssh_setup`, `ssh_legacy_copy`, `env.NAME`. Fails with kConfigInvalid.
absl::StatusOr<SshTarget> ReadSshTarget(const BoardOptions& options);

struct RemoteRun {
  double waiting_seconds = 0;   // until the board was free
  double transfer_seconds = 0;  // both ways
};

class RemoteBoard {
 public:
  // `scratch` is a folder for archives.
  RemoteBoard(SshTarget target, std::filesystem::path scratch)
      : target_(std::move(target)), scratch_(std::move(scratch)) {}

  // Runs one command there; its output line by line. kBoardFailed when the host cannot be reached
  // or the command fails.
  absl::Status Command(const std::string& command,
                       const std::function<void(std::string_view)>& on_line,
                       const base::Reporter& reporter) const;

  // Takes `folder` there, runs the shell commands of `script` in it under the board's lock, and
  // brings back its subfolder `results`. The folder there is removed whatever happens; when this
  // side goes away, what runs there is ended and the lock is free. Errors: kBoardFailed,
  // kBoardBusy when the board was not free in time, kTimeout, kCancelled.
  absl::StatusOr<RemoteRun> RunFolder(const std::filesystem::path& folder,
                                      const std::string& script, absl::Duration time_limit,
                                      const std::function<void(std::string_view)>& on_line,
                                      const base::Reporter& reporter) const;

 private:
  std::vector<std::string> Ssh() const;
  std::vector<std::string> Options(bool copy) const;
  absl::Status Run(std::vector<std::string> arguments, absl::Duration time_limit,
                   const std::function<void(std::string_view)>& on_line,
                   const base::Reporter& reporter) const;
  absl::Status Copy(const std::string& from, const std::string& to,
                    const base::Reporter& reporter) const;
  std::string RunScript() const;

  const SshTarget target_;
  const std::filesystem::path scratch_;
};

// `text` as one word of a shell.
std::string ShellQuote(std::string_view text);

}  // namespace gq::agent
