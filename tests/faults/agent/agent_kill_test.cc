// kill -9 of an agent while it works: no process is left, the lease is lost, the work is done
// elsewhere, and what the dead agent still has to say is refused.
#include "gmock/gmock.h"
#include "gq/v1/agent_service.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AgentKillTest : public LabTest {
 protected:
  // Processes of which a word of the command line begins with `folder`.
  static std::vector<pid_t> ProcessesIn(const fs::path& folder) {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string words = '\0' + ReadAll(entry.path() / "cmdline");
      if (words.find('\0' + folder.string()) != std::string::npos &&
          words.find("serve") == std::string::npos) {
        found.push_back(std::stoi(name));
      }
    }
    return found;
  }

  gq::v1::SynchronizeResponse Synchronize(const gq::v1::SynchronizeRequest& request,
                                          grpc::Status* status) {
    const auto stub = gq::v1::AgentService::NewStub(
        grpc::CreateChannel(Address(), grpc::experimental::LocalCredentials(UDS)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    gq::v1::SynchronizeResponse response;
    *status = stub->Synchronize(&context, request, &response);
    return response;
  }

  // Identity of the lease that an agent wrote to disk.
  gq::v1::Lease StoredLease(const std::string& board) {
    gq::v1::Lease lease;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder_ / ("agent_" + board) / "leases")) {
      if (entry.path().filename() == "lease.pb") lease.ParseFromString(ReadAll(entry.path()));
    }
    return lease;
  }
};

TEST_F(AgentKillTest, NothingIsLeftAndTheWorkIsDoneElsewhere) {
  StartServer();
  StartSim("dies", "hang");
  ASSERT_EQ(Gq("board-run net.onnxtxt --device ve2 --detach"), 0) << err_;
  const fs::path state = folder_ / "agent_dies";
  ASSERT_TRUE(Eventually([&] { return !ProcessesIn(state).empty(); }));
  const gq::v1::Lease lease = StoredLease("dies");
  ASSERT_FALSE(lease.lease_id().empty());

  agents_["dies"].End(SIGKILL);
  EXPECT_TRUE(Eventually([&] { return ProcessesIn(state).empty(); }, 5));

  StartSim("lives");
  EXPECT_EQ(Gq("jobs wait @last"), 0) << out_ << err_;
  EXPECT_EQ(Gq("logs @last --no-color"), 0);
  EXPECT_THAT(out_, HasSubstr("(attempt 2 of 3: WORKER_LOST)"));

  // The dead agent's result comes late, under its old name and a new session.
  gq::v1::SynchronizeRequest request;
  request.set_agent_id("host-dies");
  request.set_session_id("late");
  gq::v1::LeaseReport& report = *request.add_leases();
  report.set_lease_id(lease.lease_id());
  report.set_generation(lease.generation());
  report.set_phase(gq::v1::LEASE_PHASE_ENDED);
  report.mutable_result()->set_state(gq::v1::ATTEMPT_STATE_FAILED);
  report.mutable_result()->mutable_failure()->set_reason("COMPILE_FAILED");
  grpc::Status status;
  const gq::v1::SynchronizeResponse response = Synchronize(request, &status);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.cancel_size(), 1);
  EXPECT_EQ(response.cancel(0).reason(), "LEASE_LOST");
  EXPECT_EQ(response.acknowledged_size(), 0);
  EXPECT_EQ(Gq("jobs wait @last"), 0) << "a stale result has changed the job";
}

// The tool of a harness starts processes of its own; they end with the agent too.
TEST_F(AgentKillTest, TheProcessesOfAToolEndToo) {
  const fs::path tool = folder_ / "tool.sh";
  std::ofstream(tool) << "#!/bin/sh\n"
                         "response=$(sed -n 's/.*\"response\": \"\\(.*\\)\".*/\\1/p' $1)\n"
                         "case $1 in\n"
                         "*probe*|*health*) echo '{\"schema\":1,\"ok\":true,\"can\":[\"run\"],"
                         "\"schemes\":[\"vint8\"]}' > $response;;\n"
                         "*) sleep 1234.5 & sleep 1234.5;;\nesac\n";
  fs::permissions(tool, fs::perms::owner_all);
  StartServer();
  StartAgent("tool", "toaster",
             {"--backend", "command", "--board-option", "command=" + tool.string()});
  ASSERT_EQ(Gq("board-run net.onnxtxt --device toaster --detach"), 0) << err_;
  const auto sleepers = [] {
    int count = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      count += ReadAll(entry.path() / "cmdline").find(std::string("sleep\0001234.5", 12)) !=
               std::string::npos;
    }
    return count;
  };
  ASSERT_TRUE(Eventually([&] { return sleepers() == 2; }));
  agents_["tool"].End(SIGKILL);
  EXPECT_TRUE(Eventually([&] { return sleepers() == 0; }, 5));
}

}  // namespace
}  // namespace gq
