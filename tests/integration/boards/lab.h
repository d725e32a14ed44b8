// A lab of real processes in the test: one server, agents with boards, the client.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/gq_run.h"
#include "tests/temporary_folder.h"

namespace gq {

// A child with its output in a file; killed at the end.
class Process {
 public:
  Process() = default;
  Process(std::vector<std::string> words, const std::string& log) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (std::freopen(log.c_str(), "a", stderr) == nullptr) _exit(126);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Process& operator=(Process&& other) noexcept {
    End(SIGKILL);
    pid_ = std::exchange(other.pid_, -1);
    return *this;
  }
  ~Process() { End(SIGKILL); }

  pid_t pid() const { return pid_; }
  void End(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

class LabTest : public testing::Test {
 protected:
  LabTest() { std::ofstream(folder_ / "net.onnxtxt") << kSmallNet; }
  ~LabTest() override {
    agents_.clear();
    server_.End(SIGKILL);
    if (HasFailure()) {
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        if (entry.path().extension() == ".log") {
          std::fprintf(stderr, "--- %s\n%s", entry.path().filename().c_str(),
                       ReadAll(entry.path()).c_str());
        }
      }
    }
  }

  // `more` are further flags; the server listens on its socket alone unless they say otherwise.
  void StartServer(int workers = 0, const std::vector<std::string>& more = {"--listen", "none"}) {
    std::vector<std::string> words = {Program("gq-server"),
                                      "--data",
                                      (folder_ / "data").string(),
                                      "--workers",
                                      std::to_string(workers),
                                      "--no-sim-boards",
                                      "--lease-ttl",
                                      "2",
                                      "--min-free",
                                      "0"};
    words.insert(words.end(), more.begin(), more.end());
    server_ = Process(words, (folder_ / "server.log").string());
  }
  // An agent with one board of the same name.
  void StartAgent(const std::string& board, const std::string& device,
                  std::vector<std::string> more) {
    std::vector<std::string> words = {Program("gq-agent"),
                                      "serve",
                                      "--server",
                                      Address(),
                                      "--name",
                                      "host-" + board,
                                      "--state-dir",
                                      (folder_ / ("agent_" + board)).string(),
                                      "--board",
                                      board,
                                      "--device",
                                      device};
    words.insert(words.end(), more.begin(), more.end());
    agents_[board] = Process(words, (folder_ / ("agent_" + board + ".log")).string());
    EXPECT_TRUE(Eventually([&] { return Board(board).value("health", "").ends_with("GOOD"); }))
        << board << " does not become GOOD: " << Board(board);
  }
  void StartSim(const std::string& board, const std::string& fault = "") {
    std::vector<std::string> more = {"--backend", "sim"};
    if (!fault.empty()) more.insert(more.end(), {"--sim-fault", fault});
    StartAgent(board, "ve2-xc2ve3858", more);
  }

  // Runs gq in the test's folder; returns its exit code. What it printed is in out_ and err_.
  int Gq(const std::string& arguments, const std::string& environment = "") {
    GqOutcome outcome =
        RunGq(folder_,
              base::StrCat("GQ_SERVER=", Address(), " HOME=", folder_.string(), " ", environment),
              arguments);
    out_ = std::move(outcome.out);
    err_ = std::move(outcome.err);
    return outcome.code;
  }

  // The report of the latest job; null when there is none.
  nlohmann::json Report() {
    EXPECT_EQ(Gq("report @last --json"), 0) << err_;
    return nlohmann::json::parse(out_, nullptr, false);
  }

  // The board as `gq boards show --json` has it; an empty object when there is none.
  nlohmann::json Board(const std::string& name) {
    if (Gq("boards show " + name + " --json") != 0) return nlohmann::json::object();
    const auto board = nlohmann::json::parse(out_, nullptr, false);
    return board.is_object() ? board : nlohmann::json::object();
  }
  bool IsFree(const std::string& board) {
    const nlohmann::json found = Board(board);
    return found.contains("state") && found.value("job_id", "").empty();
  }

  template <typename F>
  static bool Eventually(F condition, int seconds = 20) {
    for (int i = 0; i < seconds * 10; ++i) {
      if (condition()) return true;
      usleep(100'000);
    }
    return false;
  }

  static std::string Program(const char* name) { return (ProgramFolder() / name).string(); }
  std::string Address() const { return "unix:" + (folder_ / "data/gq.sock").string(); }

  const tests::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  Process server_;
  std::map<std::string, Process> agents_;
  std::string out_;
  std::string err_;
};

}  // namespace gq
