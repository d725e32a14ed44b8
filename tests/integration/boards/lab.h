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
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace gq {

inline std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::filesystem::path ProgramFolder() {
  const char* folder = std::getenv("GQ_BIN_DIR");
  return std::filesystem::absolute(folder == nullptr ? "." : folder);
}

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
  LabTest() {
    std::string folder = (std::filesystem::path(testing::TempDir()) / "gq_lab_XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    std::ofstream(folder_ / "net.onnxtxt") << kModel;
  }
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
    std::filesystem::remove_all(folder_);
  }

  void StartServer(int workers = 0) {
    server_ = Process({Program("gq-server"), "--data", (folder_ / "data").string(), "--workers",
                       std::to_string(workers), "--no-sim-boards", "--listen", "none",
                       "--lease-ttl", "2", "--min-free", "0"},
                      (folder_ / "server.log").string());
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
  int Gq(const std::string& arguments) {
    const std::string command = base::StrCat("cd ", folder_.string(), " && GQ_SERVER=", Address(),
                                             " HOME=", folder_.string(), " ", Program("gq"), " ",
                                             arguments, " > out 2> err");
    const int status = std::system(command.c_str());
    out_ = ReadAll(folder_ / "out");
    err_ = ReadAll(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

  // Multiplies what it gets, so that a zero is a wrong result.
  static constexpr char kModel[] = R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[1,2,8,8] x) => (float[1,2,8,8] y)
<float[2,2,1,1] w1 = {0.5, -0.25, 0.125, 0.75}, float[2] b1 = {0.1, -0.1},
 float[2,2,1,1] w2 = {1.0, 0.5, -0.5, 0.25}, float[2] b2 = {0.0, 0.2}>
{
  a = Conv(x, w1, b1)
  r = Relu(a)
  y = Conv(r, w2, b2)
}
)";

  std::filesystem::path folder_;
  Process server_;
  std::map<std::string, Process> agents_;
  std::string out_;
  std::string err_;
};

}  // namespace gq
