// One child process with its own process group, limits and pipes. The part of child_step_runner.h
// that talks to the kernel.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file.h"
#include "common/rpc/child_step_runner.h"

namespace gq::rpc {

struct ChildCommand {
  std::vector<std::string> arguments;    // the program (an absolute path) first
  std::vector<std::string> environment;  // NAME=VALUE
  std::filesystem::path work_dir;
  ChildLimits limits;
};

// How a child ended.
struct ChildExit {
  int status = 0;  // as waitpid(2) gives it

  bool exited() const;
  int exit_code() const;
  int signal() const;  // 0 when it exited
  std::string Describe() const;
};

// Not thread-safe. The destructor kills the group and reaps the child.
class ChildProcess {
 public:
  // Starts the child. It dies (SIGKILL) when the calling thread ends. Fails with kToolMissing when
  // the program cannot be executed and kInternal when the kernel has no room for it.
  static absl::StatusOr<ChildProcess> Start(const ChildCommand& command);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Non-blocking ends of the pipes.
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }
  // The end of the event channel; blocking.
  int events() const { return events_.get(); }

  // Sends a signal to the whole group.
  void Signal(int signal);
  // True once the child has ended; `exit` says how. Does not block.
  bool Poll(ChildExit& exit);

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  bool reaped_ = false;
  ChildExit exit_;
  base::FileDescriptor out_;
  base::FileDescriptor err_;
  base::FileDescriptor events_;
};

}  // namespace gq::rpc
