// An agent gets an identity of its own, works with it, and loses it.
#include <sys/stat.h>

#include <sstream>

#include "gmock/gmock.h"
#include "tests/integration/boards/lab.h"

namespace gq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class EnrolmentTest : public LabTest {
 protected:
  // Runs a line in bash; its exit code. What it printed is in err_.
  int Bash(const std::string& line) {
    std::ofstream(folder_ / "line.sh") << line << "\n";
    const std::string command =
        base::StrCat("cd ", folder_.string(), " && PATH=", ProgramFolder().string(),
                     ":$PATH timeout 20 bash line.sh > out 2> err");
    const int status = std::system(command.c_str());
    err_ = ReadAll(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string State() const { return (folder_ / "state").string(); }
  std::string Identity(const std::string& agent) {
    EXPECT_EQ(Gq("agents list --json"), 0) << err_;
    std::istringstream lines(out_);
    for (std::string line; std::getline(lines, line);) {
      const auto entry = json::parse(line, nullptr, false);
      if (entry.is_object() && entry.value("name", "") == agent) {
        return entry.value("identity", "");
      }
    }
    return "";
  }
  void StartHost() {
    agents_["host"] =
        Process({Program("gq-agent"), "serve", "--server", Address(), "--name", "host-7",
                 "--state-dir", State(), "--board", "bench", "--device", "ve2-xc2ve3858"},
                (folder_ / "host.log").string());
  }
};

TEST_F(EnrolmentTest, OneTokenGivesOneIdentityUntilItIsRevoked) {
  StartServer();
  ASSERT_TRUE(Eventually([&] { return Gq("boards list") == 0; }));
  ASSERT_EQ(Gq("agents enroll --name host-7 --board bench --device ve2-xc2ve3858"), 0) << err_;
  const std::string line = out_;
  EXPECT_THAT(line, HasSubstr("gq-agent serve --enrol --server " + Address() +
                              " --name host-7 "
                              "--board bench --device ve2-xc2ve3858 <<< gq_"));
  EXPECT_EQ(Identity("host-7"), "enrolment");

  std::ofstream(folder_ / "token") << line.substr(line.find("<<< ") + 4);
  const std::string enrol =
      "gq-agent serve --enrol --server " + Address() +
      " --name host-7 --board bench --device ve2-xc2ve3858 --state-dir " + State() +
      " < token & pid=$!\n"
      "for i in $(seq 100); do [ -f " +
      State() + "/agent.token ] && break; sleep 0.1; done\nkill -TERM $pid; wait $pid";
  EXPECT_EQ(Bash(enrol), 0) << err_;
  struct stat info;
  ASSERT_EQ(::stat((State() + "/agent.token").c_str(), &info), 0) << err_;
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Identity("host-7"), "enrolled");

  // The same token does not work again.
  EXPECT_EQ(Bash("gq-agent serve --enrol --server " + Address() + " --name host-7 --state-dir " +
                 State() + "2 --board b --device ve2-xc2ve3858 < token"),
            3)
      << err_;
  // The identity does, without --enrol, and for this name only.
  StartHost();
  EXPECT_TRUE(Eventually([&] { return Board("bench").value("health", "").ends_with("GOOD"); }));
  EXPECT_EQ(Bash("gq-agent serve --server " + Address() + " --name other --token-file " + State() +
                 "/agent.token --state-dir " + State() + "3 --board b --device ve2-xc2ve3858"),
            3)
      << err_;

  ASSERT_EQ(Gq("agents revoke host-7"), 0) << err_;
  EXPECT_EQ(Identity("host-7"), "revoked");
  EXPECT_TRUE(Eventually([&] { return Board("bench").value("state", "").ends_with("OFFLINE"); }));
  EXPECT_EQ(Gq("agents revoke host-7"), 4);
}

TEST_F(EnrolmentTest, AnEnrolmentTokenIsGoodForNothingElse) {
  StartServer();
  ASSERT_TRUE(Eventually([&] { return Gq("boards list") == 0; }));
  ASSERT_EQ(Gq("agents enroll --name host-7 --json"), 0) << err_;
  std::ofstream(folder_ / "token") << json::parse(out_)["token"].get<std::string>();
  fs::permissions(folder_ / "token", fs::perms::owner_read);
  EXPECT_EQ(Gq("jobs list"), 0);
  setenv("GQ_TOKEN_FILE", (folder_ / "token").c_str(), 1);
  EXPECT_EQ(Gq("agents list"), 3) << out_;
  EXPECT_EQ(Gq("boards drain '*'"), 3) << out_;
  unsetenv("GQ_TOKEN_FILE");
  EXPECT_EQ(Gq("agents enroll --name 'a b'"), 2);
}

}  // namespace
}  // namespace gq
