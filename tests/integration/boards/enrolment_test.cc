// An agent gets an identity of its own, works with it, and loses it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
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
  const std::string enrol = "gq-agent serve --enrol --server " + Address() +
                            " --name host-7 --board bench --device ve2-xc2ve3858 --state-dir " +
                            State() +
                            " < token & pid=$!\n"
                            "for i in $(seq 100); do [ -f " +
                            State() +
                            "/agent.token ] && grep -q Session err && break; sleep 0.1; done\n"
                            "sleep 0.5; kill -TERM $pid; wait $pid";
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

// A host elsewhere has no local socket: TCP on loopback with tokens alone.
class TcpEnrolmentTest : public EnrolmentTest {
 protected:
  void SetUp() override {
    address_ = "127.0.0.1:" + std::to_string(FreePort());
    StartServer(0, {"--listen", address_});
    ASSERT_TRUE(Eventually([&] { return Gq("boards list") == 0; }));
  }
  static int FreePort() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(fd);
    return ntohs(address.sin_port);
  }
  // gq over TCP with the administrator's token.
  int Admin(const std::string& arguments) {
    const std::string token = (folder_ / "data/admin.token").string();
    return Gq(arguments + " --server " + address_, "GQ_TOKEN_FILE=" + token);
  }
  // The line that connects the host; its state goes to a folder of the test.
  std::string Line(const std::string& more = "", const std::string& state = "state") {
    EXPECT_EQ(Admin("agents enroll --name host-7 --board bench --device ve2-xc2ve3858 " + more), 0)
        << err_;
    std::string line = out_;
    const size_t at = line.find(" <<<");
    EXPECT_NE(at, std::string::npos) << line;
    return line.insert(at, " --state-dir " + (folder_ / state).string());
  }
  std::string address_;
};

TEST_F(TcpEnrolmentTest, ThePrintedLineConnectsAHostUntilItIsRevoked) {
  const std::string line = Line();
  EXPECT_THAT(line, HasSubstr("--server " + address_));
  std::ofstream(folder_ / "host.sh") << "exec " << line;
  const std::string path = "PATH=" + ProgramFolder().string() + ":$PATH exec bash host.sh";
  agents_["host"] = Process({"/bin/bash", "-c", "cd " + folder_.string() + " && " + path},
                            (folder_ / "host.log").string());
  EXPECT_TRUE(Eventually([&] { return Board("bench").value("health", "").ends_with("GOOD"); }))
      << ReadAll(folder_ / "host.log");
  EXPECT_EQ(Identity("host-7"), "enrolled");
  // It takes work over TCP.
  EXPECT_EQ(Admin("board-run net.onnxtxt --device ve2 --no-color"), 0) << out_ << err_;

  // The token is used up, for this host as for any other.
  EXPECT_EQ(Bash(line), 3) << err_;
  EXPECT_THAT(err_, HasSubstr("UNAUTHENTICATED"));

  ASSERT_EQ(Admin("agents revoke host-7"), 0) << err_;
  EXPECT_TRUE(Eventually([&] { return Board("bench").value("state", "").ends_with("OFFLINE"); }));
  agents_.erase("host");
  EXPECT_EQ(Bash("gq-agent serve --server " + address_ + " --name host-7 --state-dir " + State() +
                 " --board bench --device ve2-xc2ve3858"),
            3)
      << err_;
}

TEST_F(TcpEnrolmentTest, WithoutAGoodTokenNobodyComesIn) {
  const std::string host =
      "gq-agent serve --server " + address_ + " --name host-7 --board b --device ve2-xc2ve3858";
  EXPECT_EQ(Bash(host + " --state-dir s1"), 3) << err_;
  EXPECT_EQ(Bash(host + " --state-dir s2 --enrol <<< gq_0123456789abcdef"), 3) << err_;
  EXPECT_THAT(err_, HasSubstr("UNAUTHENTICATED"));
  EXPECT_FALSE(fs::exists(folder_ / "s2/agent.token"));

  const std::string late = Line("--valid-for 1s", "s3");
  ::sleep(2);
  EXPECT_EQ(Bash(late), 3) << err_;
  EXPECT_FALSE(fs::exists(folder_ / "s3/agent.token"));
  // For this name only.
  std::string other = Line("", "s4");
  other.replace(other.find("--name host-7"), 13, "--name host-8");
  EXPECT_EQ(Bash(other), 2) << err_;
  EXPECT_THAT(err_, HasSubstr("was for agent 'host-7', not 'host-8'"));
  // And the administrator's token is needed to make one.
  EXPECT_EQ(Gq("agents enroll --name host-9 --server " + address_), 3) << out_ << err_;
}

}  // namespace
}  // namespace gq
