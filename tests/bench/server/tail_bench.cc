// How long a log line takes from the agent's append to 200 followers on one host.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "tests/server/service_fixture.h"

namespace gq::server {
namespace {

constexpr int kLines = 200;

class TailFixture : public ServiceTest {
 public:
  void TestBody() override {}

  // Latency of every line at every follower, sorted, in milliseconds.
  std::vector<double> Measure(int followers) {
    const std::string id = Submit(Request()).id();
    const gq::v1::Lease lease = Take();
    std::vector<std::atomic<int64_t>> sent(kLines);
    std::vector<double> latencies;
    std::mutex mutex;
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int f = 0; f < followers; ++f) {
      threads.emplace_back([&] {
        Call call("", 120);
        gq::v1::TailLogRequest request;
        request.set_id(id);
        request.set_follow(true);
        auto reader = jobs_->TailLog(&call, request);
        gq::v1::TailLogResponse response;
        std::vector<double> mine;
        int line = -1;
        while (reader->Read(&response)) {
          const int64_t now = absl::GetCurrentTimeNanos();
          for (const char c : response.data()) {
            if (c != '\n') continue;
            if (++line == 0) {
              ++ready;
            } else {
              mine.push_back(static_cast<double>(now - sent[line]) * 1e-6);
            }
          }
        }
        reader->Finish();
        std::lock_guard lock(mutex);
        latencies.insert(latencies.end(), mine.begin(), mine.end());
      });
    }
    int64_t offset = 0;
    for (int line = 0; line < kLines; ++line) {
      const std::string text = "2026-08-21T14:08:25.120Z INFO Calibrate sample\n";
      sent[line] = absl::GetCurrentTimeNanos();
      if (!AppendLog(lease, offset, text).ok()) break;
      offset += static_cast<int64_t>(text.size());
      while (line == 0 && ready < followers) absl::SleepFor(absl::Milliseconds(5));
      absl::SleepFor(absl::Milliseconds(20));
    }
    End(lease, gq::v1::ATTEMPT_STATE_SUCCEEDED);
    for (std::thread& thread : threads) thread.join();
    std::sort(latencies.begin(), latencies.end());
    return latencies;
  }
};

void LineToFollowers(benchmark::State& state) {
  for (auto _ : state) {
    TailFixture fixture;
    const std::vector<double> latencies = fixture.Measure(static_cast<int>(state.range(0)));
    if (latencies.empty()) {
      state.SkipWithError("no line arrived");
      break;
    }
    state.counters["p50_ms"] = latencies[latencies.size() / 2];
    state.counters["p99_ms"] = latencies[latencies.size() * 99 / 100];
    state.counters["lines"] = static_cast<double>(latencies.size());
  }
}
BENCHMARK(LineToFollowers)->Arg(1)->Arg(20)->Arg(200)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gq::server
