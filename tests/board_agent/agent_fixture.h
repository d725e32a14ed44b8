// The real program against a server in the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "board_agent/backends/probe_model.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/graph/model.h"
#include "common/rpc/blob_client.h"
#include "tests/common/rpc/fake_server.h"
#include "tests/temporary_folder.h"

namespace gq::agent {

class GqAgentTest : public testing::Test {
 protected:
  ~GqAgentTest() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  static std::string Program() {
    const char* folder = ::getenv("GQ_BIN_DIR");
    return std::string(folder != nullptr ? folder : "bin") + "/gq-agent";
  }

  // With the boards of a fresh server.
  void Start(std::vector<std::string> extra = {}) {
    extra.emplace_back("--sim-boards");
    StartWith(extra);
  }
  void StartWith(const std::vector<std::string>& extra) {
    std::vector<std::string> arguments = {
        Program(), "serve",   "--server",    "unix:" + (folder_.path() / "server.sock").string(),
        "--name",  "agent-1", "--state-dir", (folder_.path() / "agent").string()};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
  }
  int WaitForExit() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Waits for the first result of a lease.
  gq::v1::StepResult Result(const std::string& id) {
    // Tools that start others take their time on a busy machine.
    bool there = false;
    for (int i = 0; i < 5 && !there; ++i) there = server_.agents.WaitForResult(id);
    EXPECT_TRUE(there);
    const rpc::FakeAgentService::State state = server_.agents.Get(id);
    return state.results.empty() ? gq::v1::StepResult() : state.results[0];
  }

  // Has the lease done by an agent with these flags; what the server then knows of it.
  rpc::FakeAgentService::State Done(const gq::v1::Lease& lease,
                                    std::vector<std::string> flags = {}) {
    server_.agents.Add(lease);
    Start(std::move(flags));
    EXPECT_TRUE(server_.agents.WaitForResult(lease.lease_id()));
    rpc::FakeAgentService::State state = server_.agents.Get(lease.lease_id());
    if (state.results.empty()) state.results.emplace_back();
    return state;
  }

  gq::v1::Lease CompileLease(const std::string& id) {
    return CompileLease(id, MakeProbeModel().value());
  }
  gq::v1::Lease CompileLease(const std::string& id, const graph::Model& model) {
    const std::filesystem::path path = folder_.path() / "probe.onnx";
    EXPECT_TRUE(graph::SaveModel(model, path).ok());
    const std::string bytes = base::ReadFile(path).value();
    server_.blobs.Put(bytes);
    gq::v1::Lease lease;
    lease.set_lease_id(id);
    lease.set_generation(1);
    lease.set_kind(gq::v1::STEP_KIND_COMPILE);
    lease.set_title("Compile");
    lease.set_step_index(3);
    lease.set_step_count(4);
    lease.set_board("ve2-sim");
    lease.mutable_spec()->set_device("ve2");
    gq::v1::FileRef& file = *lease.mutable_spec()->mutable_model()->mutable_file();
    file.set_name("probe.onnx");
    *file.mutable_digest() = rpc::DigestOfBytes(bytes);
    return lease;
  }

  tests::TemporaryFolder folder_;
  rpc::FakeServer server_{folder_.path()};
  pid_t pid_ = -1;
};

}  // namespace gq::agent
