// Durable submits per second from many clients, and the first page of a long list.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "server/ledger/sqlite_ledger.h"
#include "tests/temporary_folder.h"

namespace gq::server {
namespace {

NewJob SmallJob() {
  NewJob job;
  job.spec.set_name("bench");
  for (int i = 0; i < 4; ++i) job.steps.push_back({gq::v1::STEP_KIND_EVALUATE, "Evaluate", {}});
  job.actor = {"alice", "Bench"};
  return job;
}

struct Fixture {
  tests::TemporaryFolder folder;
  base::SystemClock clock;
  std::unique_ptr<SqliteLedger> ledger =
      SqliteLedger::Open(folder.path() / "ledger.db", clock).value();
};

Fixture& Shared() {
  static Fixture fixture;
  return fixture;
}

// Every thread is a client that waits for its answer.
void DurableSubmits(benchmark::State& state) {
  Ledger& ledger = *Shared().ledger;
  for (auto _ : state) {
    NewJob job = SmallJob();
    static std::atomic<int64_t> next = 0;
    job.request_id = std::to_string(next++);
    if (!ledger.CreateJob(job).ok()) state.SkipWithError("refused");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DurableSubmits)->ThreadRange(1, 64)->UseRealTime()->MinTime(1);

// GQ_BENCH_JOBS sets the length of the list (1,000,000 takes some minutes to fill).
void FirstPage(benchmark::State& state) {
  Ledger& ledger = *Shared().ledger;
  static const int filled = [&ledger] {
    const char* text = std::getenv("GQ_BENCH_JOBS");
    const int wanted = text == nullptr ? 20'000 : std::atoi(text);
    std::atomic<int> left = wanted;
    std::vector<std::thread> threads;
    for (int t = 0; t < 32; ++t) {
      threads.emplace_back([&] {
        while (left-- > 0) (void)ledger.CreateJob(SmallJob());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wanted;
  }();
  for (auto _ : state) {
    auto page = ledger.ListJobs({.viewer = {.principal = "alice"}, .limit = 50});
    if (!page.ok() || page->size() != 50) state.SkipWithError("no page");
  }
  state.counters["jobs"] = filled;
}
BENCHMARK(FirstPage)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gq::server
