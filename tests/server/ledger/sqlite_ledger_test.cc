// What is special about the SQLite file: migrations, locking, group commit, crashes.
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "common/base/status.h"
#include "server/ledger/data_folder.h"
#include "server/ledger/schema.h"
#include "tests/server/ledger/ledger_fixture.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

using base::GetReason;
using base::Reason;

TEST(SqliteLedger, NewerFileIsRefused) {
  tests::TemporaryFolder folder;
  ManualClock clock;
  const auto file = folder.path() / "ledger.db";
  ASSERT_TRUE(SqliteLedger::Open(file, clock).ok());
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
      .exec("PRAGMA user_version = " + std::to_string(Migrations().size() + 1));
  EXPECT_EQ(GetReason(SqliteLedger::Open(file, clock).status()), Reason::kLedgerTooNew);
}

TEST(SqliteLedger, StrangeFilesAreRefused) {
  tests::TemporaryFolder folder;
  ManualClock clock;
  const auto text = folder.path() / "text.db";
  std::ofstream(text) << std::string(4096, 'x');
  EXPECT_EQ(GetReason(SqliteLedger::Open(text, clock).status()), Reason::kLedgerFailed);
  const auto other = folder.path() / "other.db";
  SQLite::Database(other.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE t (x)");
  EXPECT_EQ(GetReason(SqliteLedger::Open(other, clock).status()), Reason::kLedgerFailed);
}

TEST(SqliteLedger, DataFolderHasOneServer) {
  tests::TemporaryFolder folder;
  auto first = DataFolder::Open(folder.path() / "data");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(GetReason(DataFolder::Open(folder.path() / "data").status()),
            Reason::kDataFolderLocked);
  { const DataFolder moved = std::move(*first); }
  EXPECT_TRUE(DataFolder::Open(folder.path() / "data").ok());
}

TEST(SqliteLedger, BackupIsAWholeLedger) {
  tests::TemporaryFolder folder;
  ManualClock clock;
  auto ledger = *SqliteLedger::Open(folder.path() / "ledger.db", clock);
  const std::string id = ledger->CreateJob(TwoSteps())->id();
  const std::string copy = (folder.path() / "copy.db").string();
  EXPECT_GT(*ledger->Backup(kAlice, copy), 0);
  EXPECT_EQ(GetReason(ledger->Backup(kAlice, copy).status()), Reason::kAlreadyExists);
  EXPECT_EQ(GetReason(ledger->Backup(kAlice, "/nowhere/copy.db").status()),
            Reason::kFileUnwritable);
  auto restored = *SqliteLedger::Open(copy, clock);
  EXPECT_EQ(restored->GetJob(id)->id(), id);
}

TEST(SqliteLedger, AFullDiskIsSaidAndTheWorkGoesOnWhenThereIsRoom) {
  tests::TemporaryFolder folder;
  ManualClock clock;
  std::atomic<bool> full = false;
  auto ledger = *SqliteLedger::Open(folder.path() / "ledger.db", clock, [&](std::string_view now) {
    if (full && now == "applied") throw SQLite::Exception("database or disk is full", SQLITE_FULL);
  });
  full = true;
  const auto refused = ledger->CreateJob(TwoSteps("r1"));
  EXPECT_EQ(GetReason(refused.status()), Reason::kDiskFull);
  full = false;
  EXPECT_THAT(*ledger->ListJobs({.viewer = {.sees_all = true}, .limit = 10}), testing::IsEmpty());
  EXPECT_TRUE(ledger->CreateJob(TwoSteps("r1")).ok());
}

TEST(SqliteLedger, ConcurrentSubmitsAreAllStored) {
  tests::TemporaryFolder folder;
  ManualClock clock;
  auto ledger = *SqliteLedger::Open(folder.path() / "ledger.db", clock);
  constexpr int kThreads = 8, kEach = 25;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> refused = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        // Every second request is faulty, so good and bad changes share transactions.
        NewJob job = TwoSteps("r" + std::to_string(t) + "." + std::to_string(i));
        if (i % 2 == 1) job.blobs = {DigestOf('f', 1)};
        if (!ledger->CreateJob(job).ok()) ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, kThreads * (kEach / 2));
  const auto jobs = *ledger->ListJobs({.viewer = {.sees_all = true}, .limit = 1000});
  std::set<std::string> ids;
  for (const auto& job : jobs) ids.insert(job.id());
  EXPECT_EQ(ids.size(), static_cast<size_t>(kThreads * (kEach - kEach / 2)));
}

// A child process submits jobs, claims and completes their steps, and writes a line for everything
// that was acknowledged; it is killed at a point of the writer. What it acknowledged must be there.
class CrashPoint : public testing::TestWithParam<const char*> {};

[[noreturn]] void WriteUntilKilled(const std::filesystem::path& folder, std::string_view point,
                                   int kill_at) {
  ManualClock clock;
  int passes = 0;
  auto ledger = SqliteLedger::Open(folder / "ledger.db", clock, [&](std::string_view now) {
    if (now == point && ++passes == kill_at) raise(SIGKILL);
  });
  if (!ledger.ok()) _exit(2);
  std::ofstream acknowledged(folder / "acknowledged");
  AgentContact contact;
  contact.agent = "worker-1";
  contact.session = "s1";
  contact.ttl = absl::Seconds(60);
  (void)(*ledger)->RecordContact(contact);
  for (int i = 0; i < 1000; ++i) {
    auto job = (*ledger)->CreateJob(TwoSteps("r" + std::to_string(i)));
    acknowledged << "job " << job->id() << std::endl;
    auto lease = (*ledger)->ClaimStep({.job_id = job->id(),
                                       .step_index = 0,
                                       .agent = "worker-1",
                                       .session = "s1",
                                       .ttl = absl::Seconds(60)});
    acknowledged << "lease " << job->id() << std::endl;
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    (void)(*ledger)->CompleteAttempt(lease->key, result);
    acknowledged << "done " << job->id() << std::endl;
  }
  _exit(3);
}

TEST_P(CrashPoint, NothingAcknowledgedIsLost) {
  for (int kill_at : {2, 3, 4, 5, 17, 30}) {
    tests::TemporaryFolder folder;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(folder.path(), GetParam(), kill_at);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;

    ManualClock clock;
    auto ledger = SqliteLedger::Open(folder.path() / "ledger.db", clock);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    std::ifstream acknowledged(folder.path() / "acknowledged");
    std::string what, id;
    size_t jobs = 0;
    while (acknowledged >> what >> id) {
      auto job = (*ledger)->GetJob(id);
      ASSERT_TRUE(job.ok()) << what << " " << id;
      if (what == "job") ++jobs;
      if (what == "lease") {
        EXPECT_GE(job->steps(0).attempts_size(), 1);
      }
      if (what == "done") {
        EXPECT_EQ(job->steps(0).state(), gq::v1::STEP_STATE_SUCCEEDED);
      }
      EXPECT_LE(job->steps(0).attempts_size(), 1) << "a step ran twice";
    }
    // At most the one change that was under way is there beyond what was acknowledged.
    const auto all = *(*ledger)->ListJobs({.viewer = {.sees_all = true}, .limit = 1000});
    EXPECT_LE(all.size(), jobs + 1);
    // The client that got no answer asks again and gets the same job.
    const std::string next = "r" + std::to_string(jobs);
    const std::string again = (*ledger)->CreateJob(TwoSteps(next))->id();
    EXPECT_EQ((*ledger)->CreateJob(TwoSteps(next))->id(), again);
    EXPECT_LE((*ledger)->ListJobs({.viewer = {.sees_all = true}, .limit = 1000})->size(), jobs + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Points, CrashPoint, testing::Values("begin", "applied", "committed"));

}  // namespace
}  // namespace gq::server
