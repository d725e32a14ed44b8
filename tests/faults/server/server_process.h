// gq-server as a process of its own, to be killed.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace gq::server {

class ServerProcess {
 public:
  explicit ServerProcess(std::filesystem::path data, std::vector<std::string> more = {})
      : data_(std::move(data)), more_(std::move(more)) {}
  ~ServerProcess() { Kill(SIGKILL); }

  void Start() {
    const char* folder = std::getenv("GQ_BIN_DIR");
    const std::string program =
        (std::filesystem::path(folder ? folder : ".") / "gq-server").string();
    ASSERT_TRUE(std::filesystem::exists(program)) << program << " is not built";
    std::vector<std::string> words = {program,       "--data",          data_.string(), "--workers",
                                      "0",           "--no-sim-boards", "--listen",     "none",
                                      "--log-level", "error",           "--min-free",   "0"};
    words.insert(words.end(), more_.begin(), more_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }

  // Ends the process with a signal; its wait status.
  int Kill(int signal) {
    if (pid_ <= 0) return 0;
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

  std::string address() const { return "unix:" + (data_ / "gq.sock").string(); }

 private:
  const std::filesystem::path data_;
  const std::vector<std::string> more_;
  pid_t pid_ = -1;
};

}  // namespace gq::server
