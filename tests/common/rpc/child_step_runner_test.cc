#include "common/rpc/child_step_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/backoff.h"
#include "tests/temporary_folder.h"

namespace gq::rpc {
namespace {

using base::Reason;
using gq::v1::ATTEMPT_STATE_FAILED;
using gq::v1::ATTEMPT_STATE_SUCCEEDED;
using testing::HasSubstr;
using testing::Not;

// Field 1 (state), value 2 (SUCCEEDED), as bytes on the wire.
constexpr char kSucceed[] = "printf '\\010\\002' > \"$2/result.pb\"\n";

class RecordedEvents : public StepEvents {
 public:
  void Log(std::string_view stored_lines) override {
    absl::MutexLock lock(&mutex_);
    log_ += stored_lines;
  }
  void Progress(const gq::v1::StepProgress&) override {}
  absl::Status Iteration(const gq::v1::Iteration&) override { return absl::OkStatus(); }
  std::string log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }

 private:
  absl::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
};

// A process that has ended may still be there as a zombie, until its new parent asks for it.
bool IsRunning(int pid) {
  const auto stat = base::ReadFile(base::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return false;
  const size_t end = stat->rfind(')');
  return end + 2 < stat->size() && (*stat)[end + 2] != 'Z';
}

// A killed process takes a moment to go.
bool EndsSoon(int pid) {
  for (int i = 0; i < 1000 && IsRunning(pid); ++i) SleepFor(absl::Milliseconds(5), {});
  return !IsRunning(pid);
}

// The child is a shell script that gets `step WORKDIR` as $1 and $2.
class ChildStepRunnerTest : public testing::Test {
 protected:
  absl::StatusOr<gq::v1::StepResult> Run(const std::string& script, std::stop_token stop = {}) {
    const std::filesystem::path path = folder_.path() / "script";
    EXPECT_TRUE(base::WriteFileAtomically(path, script).ok());
    options_.command = {"/bin/sh", path.string()};
    ChildStepRunner runner(options_);
    gq::v1::Lease lease;
    lease.set_lease_id("a");
    return runner.Run(lease, work_, events_, std::move(stop));
  }

  tests::TemporaryFolder folder_;
  std::filesystem::path work_ = folder_.path() / "work";
  ChildStepRunnerOptions options_;
  RecordedEvents events_;
};

TEST_F(ChildStepRunnerTest, ReturnsWhatTheChildWrote) {
  const auto result =
      Run(std::string("test \"$1\" = step && test -s \"$2/lease.pb\" || exit 1\n") + kSucceed);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->state(), ATTEMPT_STATE_SUCCEEDED);
}

TEST_F(ChildStepRunnerTest, PassesStoredLinesOnAndWrapsAllOther) {
  ASSERT_TRUE(Run(std::string("echo '2026-08-21T14:08:25.120Z WARN Calibrate careful'\n"
                              "echo plain\necho 'tool warning' >&2\nprintf unfinished\n") +
                  kSucceed)
                  .ok());
  EXPECT_THAT(events_.log(), HasSubstr("2026-08-21T14:08:25.120Z WARN Calibrate careful\n"));
  EXPECT_THAT(events_.log(), HasSubstr("INFO Output plain\n"));
  EXPECT_THAT(events_.log(), HasSubstr("WARN Output tool warning\n"));
  EXPECT_THAT(events_.log(), HasSubstr("INFO Output unfinished\n"));
}

TEST_F(ChildStepRunnerTest, CutsEndlessLines) {
  ASSERT_TRUE(
      Run(std::string("head -c 100000 /dev/zero | tr '\\0' x\necho\necho next\n") + kSucceed).ok());
  EXPECT_LT(events_.log().size(), 20000U);
  EXPECT_THAT(events_.log(), HasSubstr("x [cut]\n"));
  EXPECT_THAT(events_.log(), HasSubstr("next\n"));
}

TEST_F(ChildStepRunnerTest, AChildWithoutAResultIsLost) {
  const auto result = Run("exit 3\n");
  EXPECT_EQ(base::GetReason(result.status()), Reason::kWorkerLost);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("status 3"));
}

TEST_F(ChildStepRunnerTest, ACrashNamesItsSignal) {
  const auto result = Run("kill -SEGV $$\n");
  EXPECT_EQ(base::GetReason(result.status()), Reason::kWorkerLost);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("SIGSEGV"));
}

TEST_F(ChildStepRunnerTest, AProgramThatIsNotThereIsSaid) {
  options_.command = {"/nowhere/gq-worker"};
  ChildStepRunner runner(options_);
  const auto result = runner.Run(gq::v1::Lease(), work_, events_, {});
  EXPECT_EQ(base::GetReason(result.status()), Reason::kToolMissing);
}

TEST_F(ChildStepRunnerTest, AStopEndsTheWholeGroupGently) {
  std::stop_source stop;
  std::thread stopper([&] {
    while (events_.log().find("ready") == std::string::npos) SleepFor(absl::Milliseconds(5), {});
    stop.request_stop();
  });
  const absl::Time start = absl::Now();
  Run("trap 'echo gently; exit 0' TERM\nsleep 1000 &\necho ready $!\nwait\n", stop.get_token())
      .IgnoreError();
  stopper.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_THAT(events_.log(), HasSubstr("gently"));
  const std::string log = events_.log();
  const int sleeper = std::stoi(log.substr(log.find("ready ") + 6));
  EXPECT_TRUE(EndsSoon(sleeper)) << "a process of the group is still there";
}

TEST_F(ChildStepRunnerTest, WhoeverIgnoresAStopIsKilled) {
  options_.kill_delay = absl::Milliseconds(200);
  std::stop_source stop;
  std::thread stopper([&] {
    while (events_.log().find("ready") == std::string::npos) SleepFor(absl::Milliseconds(5), {});
    stop.request_stop();
  });
  const absl::Time start = absl::Now();
  const auto result =
      Run("trap '' TERM\necho ready\nwhile true; do sleep 0.05; done\n", stop.get_token());
  stopper.join();
  EXPECT_FALSE(result.ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(ChildStepRunnerTest, WhatTheGroupLeavesRunningIsKilled) {
  ASSERT_TRUE(Run(std::string("sleep 1000 &\necho left $!\n") + kSucceed).ok());
  const std::string log = events_.log();
  const int left = std::stoi(log.substr(log.find("left ") + 5));
  EXPECT_TRUE(EndsSoon(left));
}

TEST_F(ChildStepRunnerTest, TheChildSeesLimitsAndACleanEnvironment) {
  options_.limits.open_files = 77;
  options_.limits.cpu_seconds = 33;
  options_.environment = {{"GQ_TEST_GIVEN", "yes"}};
  ::setenv("GQ_TEST_SECRET", "secret", 1);
  ASSERT_TRUE(Run(std::string("echo files $(ulimit -n) cpu $(ulimit -t) core $(ulimit -c)\n"
                              "echo given $GQ_TEST_GIVEN secret \"<$GQ_TEST_SECRET>\"\n"
                              "echo home $HOME fd $GQ_EVENT_FD\n"
                              "grep NoNewPrivs /proc/self/status\n") +
                  kSucceed)
                  .ok());
  ::unsetenv("GQ_TEST_SECRET");
  EXPECT_THAT(events_.log(), HasSubstr("files 77 cpu 33 core 0"));
  EXPECT_THAT(events_.log(), HasSubstr("given yes secret <>"));
  EXPECT_THAT(events_.log(), HasSubstr("home " + work_.string() + " fd 3"));
  EXPECT_THAT(events_.log(), HasSubstr("NoNewPrivs:\t1"));
}

TEST_F(ChildStepRunnerTest, TooMuchCpuTimeIsTheModelsFault) {
  options_.limits.cpu_seconds = 1;
  const auto result = Run("while true; do :; done\n");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->state(), ATTEMPT_STATE_FAILED);
  EXPECT_EQ(result->failure().reason(), "RESOURCE_LIMIT");
}

}  // namespace
}  // namespace gq::rpc
