#include "server/settings.h"

#include <cstdlib>
#include <fstream>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;
using testing::HasSubstr;

absl::StatusOr<ParsedSettings> Read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "gq-server");
  return ReadSettings(static_cast<int>(arguments.size()), arguments.data());
}

class SettingsTest : public testing::Test {
 protected:
  std::string File(const std::string& text) {
    const std::string path = (folder_.path() / "server.yaml").string();
    std::ofstream(path) << text;
    return path;
  }
  tests::TemporaryFolder folder_;
};

TEST_F(SettingsTest, DefaultsAreThoseOfTheManual) {
  const Settings settings = Read({"--data", "/d"})->settings;
  EXPECT_EQ(settings.service.data, "/d");
  EXPECT_EQ(settings.service.socket, "/d/gq.sock");
  EXPECT_EQ(settings.service.listen, "127.0.0.1:7443");
  EXPECT_TRUE(settings.sim_boards);
  EXPECT_GE(settings.workers, 1);
  EXPECT_EQ(settings.service.times.ttl, absl::Seconds(60));
  EXPECT_EQ(settings.service.times.grace, absl::Seconds(30));
  EXPECT_EQ(settings.service.times.restart_grace, absl::Seconds(150));
  EXPECT_EQ(settings.service.log_cap, int64_t{256} << 20);
}

TEST_F(SettingsTest, FlagsGoBeforeVariablesBeforeTheFile) {
  const std::string file = File("workers: 3\nlisten: 127.0.0.1:1\nlog_level: warn\n");
  setenv("GQ_SERVER_WORKERS", "4", 1);
  setenv("GQ_SERVER_LISTEN", "127.0.0.1:2", 1);
  const auto parsed = Read({"--config", file.c_str(), "--workers", "5"});
  unsetenv("GQ_SERVER_WORKERS");
  unsetenv("GQ_SERVER_LISTEN");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->settings.workers, 5);
  EXPECT_EQ(parsed->settings.service.listen, "127.0.0.1:2");
  EXPECT_EQ(parsed->settings.log_level, "warn");
}

TEST_F(SettingsTest, SwitchesAndNone) {
  const std::string file = File("no_sim_boards: true\n");
  const auto parsed = Read({"--config", file.c_str(), "--listen", "none", "--reflection"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->settings.sim_boards);
  EXPECT_TRUE(parsed->settings.service.reflection);
  EXPECT_EQ(parsed->settings.service.listen, "");
}

TEST_F(SettingsTest, MistakesAreNamed) {
  const auto refused = [&](const std::string& text) {
    const absl::Status status = Read({"--config", File(text).c_str()}).status();
    EXPECT_EQ(GetReason(status), Reason::kConfigInvalid) << text;
    return status;
  };
  const absl::Status unknown = refused("data: /d\nworker: 2\n");
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("line 2: unknown key 'worker'"));
  EXPECT_EQ(base::GetHint(unknown), "did you mean 'workers'?");
  EXPECT_THAT(std::string(refused("workers: 2\nworkers: 3\n").message()), HasSubstr("twice"));
  EXPECT_FALSE(refused("- a\n- b\n").ok());
  EXPECT_FALSE(refused("data: [\n").ok());
  EXPECT_EQ(GetReason(Read({"--config", "/no/such/file"}).status()), Reason::kFileNotFound);
  EXPECT_EQ(GetReason(Read({"--workers", "many"}).status()), Reason::kInvalidFlag);
  EXPECT_EQ(GetReason(Read({"--workers", "-1"}).status()), Reason::kInvalidFlag);
  EXPECT_EQ(GetReason(Read({"--no-such-flag"}).status()), Reason::kInvalidFlag);
  EXPECT_EQ(GetReason(Read({"--log-level", "loud"}).status()), Reason::kInvalidFlag);
}

TEST_F(SettingsTest, PrintedSettingsCanBeReadBack) {
  testing::internal::CaptureStdout();
  const auto first = Read({"--data", "/d", "--workers", "7", "--print-config"});
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(first->exit_status, 0);
  const auto again = Read({"--config", File(printed).c_str()});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->settings.workers, 7);
  EXPECT_EQ(again->settings.service.data, "/d");
  EXPECT_FALSE(again->exit_status.has_value());
}

}  // namespace
}  // namespace gq::server
