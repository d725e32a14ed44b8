#include "server/process/local_children.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/process/service_notify.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

ChildCommand Shell(const std::string& name, const std::string& script) {
  return {name, {"/bin/sh", "-c", script}};
}

// Collects the ends of children.
struct Ends {
  absl::Mutex mutex;
  std::vector<std::string> texts ABSL_GUARDED_BY(mutex);

  LocalChildren::OnExit Callback() {
    return [this](const std::string& name, const std::string& how, bool wanted) {
      absl::MutexLock lock(&mutex);
      texts.push_back(name + ": " + how + (wanted ? ", wanted" : ""));
    };
  }
  std::vector<std::string> Await(size_t count) {
    absl::MutexLock lock(&mutex);
    const auto enough = [this, count]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return texts.size() >= count; };
    mutex.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
    return texts;
  }
};

const ChildBackoff kQuick{absl::Milliseconds(5), absl::Milliseconds(20), absl::Seconds(60)};

bool Await(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

TEST(LocalChildren, EndsAreToldAndChildrenStartedAgain) {
  Ends ends;
  LocalChildren children({Shell("a", "exit 3")}, ends.Callback(), kQuick);
  EXPECT_THAT(ends.Await(2), testing::Contains("a: exit status 3").Times(testing::Ge(2)));
}

TEST(LocalChildren, KilledChildIsToldWithItsSignal) {
  Ends ends;
  LocalChildren children({Shell("a", "kill -9 $$")}, ends.Callback(), kQuick);
  EXPECT_EQ(ends.Await(1).at(0), "a: signal 9 (Killed)");
}

TEST(LocalChildren, MissingProgramDoesNotStopTheOthers) {
  Ends ends;
  LocalChildren children({{"gone", {"/no/such/program"}}, Shell("there", "exec sleep 100")},
                         ends.Callback(), kQuick);
  EXPECT_EQ(ends.Await(1).at(0), "gone: exit status 127");
  EXPECT_TRUE(Await([&] {
    for (const auto& [name, pid] : children.Running()) {
      if (name == "there") return true;
    }
    return false;
  }));
}

TEST(LocalChildren, DrainLetsThemFinishAndStartsNoneAgain) {
  Ends ends;
  tests::TemporaryFolder folder;
  const std::string ready = (folder.path() / "ready").string();
  LocalChildren children(
      {Shell("a", "trap 'exit 0' TERM; touch " + ready + "; while :; do sleep 0.01; done")},
      ends.Callback(), kQuick);
  ASSERT_TRUE(Await([&] { return std::filesystem::exists(ready); }));
  EXPECT_FALSE(children.WaitUntilGone(absl::ZeroDuration()));
  children.Drain();
  EXPECT_TRUE(children.WaitUntilGone(absl::Seconds(20)));
  EXPECT_EQ(ends.Await(1), std::vector<std::string>{"a: exit status 0, wanted"});
}

TEST(LocalChildren, StopKillsThoseWhoDoNotListen) {
  Ends ends;
  tests::TemporaryFolder folder;
  const std::string ready = (folder.path() / "ready").string();
  LocalChildren children(
      {Shell("a", "trap '' TERM; touch " + ready + "; while :; do sleep 0.01; done")},
      ends.Callback(), kQuick);
  ASSERT_TRUE(Await([&] { return std::filesystem::exists(ready); }));
  children.Drain();
  EXPECT_FALSE(children.WaitUntilGone(absl::Milliseconds(50)));
  children.Stop();
  EXPECT_EQ(ends.Await(1), std::vector<std::string>{"a: signal 9 (Killed), wanted"});
}

TEST(LocalChildren, ChildrenDieWithTheirServer) {
  tests::TemporaryFolder folder;
  const std::string file = (folder.path() / "pid").string();
  const pid_t server = fork();
  ASSERT_GE(server, 0);
  if (server == 0) {
    LocalChildren children({Shell("a", "echo $$ > " + file + ".new && mv " + file + ".new " + file +
                                           "; exec sleep 100")},
                           [](const std::string&, const std::string&, bool) {});
    pause();
    _exit(0);
  }
  ASSERT_TRUE(Await([&] { return std::filesystem::exists(file); }));
  pid_t child = 0;
  std::ifstream(file) >> child;
  ASSERT_GT(child, 0);
  EXPECT_EQ(kill(child, 0), 0);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  // A killed process may remain as an entry until somebody reaps it; it runs no more.
  EXPECT_TRUE(Await([&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return !(stat >> pid >> name >> state) || state == "Z";
  }));
}

TEST(ServiceNotify, MessageArrivesAtTheSocket) {
  tests::TemporaryFolder folder;
  const std::string path = (folder.path() / "notify").string();
  const int server = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  NotifyServiceManager("READY=1");
  unsetenv("NOTIFY_SOCKET");
  char buffer[64];
  const ssize_t size = recv(server, buffer, sizeof buffer, MSG_DONTWAIT);
  close(server);
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(size)), "READY=1");
  NotifyServiceManager("nobody listens");
}

TEST(ServiceNotify, WatchdogIsFedTwiceAsOftenAsAsked) {
  setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_EQ(*WatchdogInterval(), absl::Seconds(15));
  unsetenv("WATCHDOG_USEC");
  EXPECT_FALSE(WatchdogInterval().has_value());
}

}  // namespace
}  // namespace gq::server
