#include "client/cli/server_address.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"

namespace gq::cli {
namespace {

namespace fs = std::filesystem;

class ChooseServerTest : public testing::Test {
 protected:
  ChooseServerTest() {
    fs::create_directories(home_ / ".config/gq");
    environment_.home = home_.string();
  }

  void WriteContexts(const std::string& text) {
    std::ofstream(home_ / ".config/gq/config.yaml") << text;
  }

  tests::TemporaryFolder temporary_;
  const fs::path home_ = temporary_.path();
  Environment environment_;
};

constexpr char kContexts[] =
    "context: lab\n"
    "contexts:\n"
    "  lab: {server: 'lab.example:7443', token_file: ~/lab.token, ca_file: /ca.pem}\n"
    "  other: {server: '127.0.0.1:7443', token_file: /other.token}\n";

TEST_F(ChooseServerTest, TakesTheLocalSocketWhenNothingIsSaid) {
  const auto choice = ChooseServer("", environment_);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->channel.address, "unix:" + home_.string() + "/.local/state/gq/gq.sock");
  environment_.gq_data = "/data";
  EXPECT_EQ(ChooseServer("", environment_)->channel.address, "unix:/data/gq.sock");
}

TEST_F(ChooseServerTest, DataFolderDependsOnTheUser) {
  EXPECT_EQ(DataFolder({.home = "/h", .root = true}), "/var/lib/gq");
  EXPECT_EQ(DataFolder({.home = "/h", .xdg_state_home = "/s"}), "/s/gq");
  EXPECT_EQ(DataFolder({.home = "/h", .gq_data = "/d", .root = true}), "/d");
}

TEST_F(ChooseServerTest, FlagBeatsVariableBeatsContext) {
  WriteContexts(kContexts);
  auto choice = ChooseServer("", environment_);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->channel.address, "lab.example:7443");
  EXPECT_EQ(choice->channel.token_file, home_ / "lab.token");
  EXPECT_EQ(choice->channel.ca_file, "/ca.pem");

  environment_.gq_server = "127.0.0.1:7443";
  choice = ChooseServer("", environment_);
  EXPECT_EQ(choice->channel.address, "127.0.0.1:7443");
  EXPECT_EQ(choice->channel.token_file, "/other.token");

  environment_.gq_token_file = "/mine";
  choice = ChooseServer("unix:/x", environment_);
  EXPECT_EQ(choice->channel.address, "unix:/x");
  EXPECT_EQ(choice->channel.token_file, "/mine");
}

TEST_F(ChooseServerTest, RefusesADamagedContextFile) {
  for (const char* text :
       {"context: nobody\n", "servers: {}\n", "contexts: {a: {server: x, tokn: y}}\n",
        "contexts: {a: {}}\n", "- a\n", "context: [\n"}) {
    WriteContexts(text);
    const auto choice = ChooseServer("", environment_);
    ASSERT_FALSE(choice.ok()) << text;
    EXPECT_EQ(base::GetReason(choice.status()), base::Reason::kConfigInvalid) << text;
  }
}

}  // namespace
}  // namespace gq::cli
