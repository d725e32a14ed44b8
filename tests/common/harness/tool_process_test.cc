#include "common/harness/tool_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "tests/temporary_folder.h"

namespace gq::harness {
namespace {

using base::Reason;
using testing::ElementsAre;
using testing::HasSubstr;

class Cancelling : public base::NullReporter {
 public:
  bool Cancelled() const override { return true; }
};

ToolCommand Shell(const std::string& script) {
  ToolCommand command;
  command.arguments = {"sh", "-c", script};
  return command;
}

class ToolProcessTest : public testing::Test {
 protected:
  absl::StatusOr<ToolExit> Run(const ToolCommand& command) {
    return RunTool(
        command, [this](std::string_view line) { lines_.emplace_back(line); }, reporter_);
  }
  std::vector<std::string> lines_;
  base::NullReporter reporter_;
};

// True once no process of that command line is left.
bool IsGone(const std::string& marker) {
  for (int i = 0; i < 100; ++i) {
    const std::string command = "pgrep -f '^sleep " + marker + "' > /dev/null";
    if (std::system(command.c_str()) != 0) return true;
    ::usleep(50'000);
  }
  return false;
}

TEST_F(ToolProcessTest, GivesLinesAndStatus) {
  const auto exit = Run(Shell("echo one; printf 'two\\r\\n' >&2; printf three; exit 3"));
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
  EXPECT_EQ(exit->Describe(), "ended with status 3");
  EXPECT_EQ(exit->last_lines, "one | two | three");
  EXPECT_EQ(Run(Shell("kill -SEGV $$"))->Describe(), "was ended by signal SIGSEGV");
}

TEST_F(ToolProcessTest, TheActivationScriptComesFirst) {
  const tests::TemporaryFolder folder;
  const std::filesystem::path script = folder.path() / "activate";
  std::ofstream(script) << "export WHO=$GREETING-script\n";
  ToolCommand command = Shell("echo $WHO");
  command.activation_script = script;
  command.environment["GREETING"] = "hello";
  ASSERT_TRUE(Run(command)->ok());
  EXPECT_THAT(lines_, ElementsAre("hello-script"));
  command.activation_script = "/no/such/script";
  EXPECT_FALSE(Run(command)->ok());
}

TEST_F(ToolProcessTest, WhatCannotBeStartedIsSaid) {
  ToolCommand command;
  command.arguments = {"/no/such/program"};
  const auto status = Run(command).status();
  EXPECT_EQ(base::GetReason(status), Reason::kToolMissing);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/program"));
}

TEST_F(ToolProcessTest, TheWholeGroupEndsWithItsTime) {
  ToolCommand command = Shell("sleep 4321.1 & sleep 4321.1");
  command.time_limit = absl::Milliseconds(200);
  EXPECT_EQ(base::GetReason(Run(command).status()), Reason::kTimeout);
  EXPECT_TRUE(IsGone("4321.1"));
}

TEST_F(ToolProcessTest, WhatAToolLeavesBehindEndsToo) {
  ASSERT_TRUE(Run(Shell("sleep 4321.2 > /dev/null 2>&1 & echo done"))->ok());
  EXPECT_THAT(lines_, ElementsAre("done"));
  EXPECT_TRUE(IsGone("4321.2"));
}

TEST_F(ToolProcessTest, ACancelledToolEnds) {
  Cancelling cancelling;
  EXPECT_EQ(base::GetReason(RunTool(
                                Shell("sleep 4321.3"), [](std::string_view) {}, cancelling)
                                .status()),
            Reason::kCancelled);
  EXPECT_TRUE(IsGone("4321.3"));
}

TEST_F(ToolProcessTest, TheGroupEndsWithThisProcess) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)Run(Shell("sleep 4321.4 & sleep 4321.4"));
    ::_exit(0);
  }
  while (std::system("pgrep -f '^sleep 4321.4' > /dev/null") != 0) ::usleep(20'000);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(IsGone("4321.4"));
}

TEST_F(ToolProcessTest, HeldInputEndsWhenTheToolDoes) {
  ToolCommand command = Shell("read line; echo end");
  command.time_limit = absl::Milliseconds(300);
  command.hold_input = true;
  EXPECT_EQ(base::GetReason(Run(command).status()), Reason::kTimeout);
  command.hold_input = false;
  EXPECT_TRUE(Run(command).ok());
  EXPECT_THAT(lines_, ElementsAre("end"));
}

}  // namespace
}  // namespace gq::harness
