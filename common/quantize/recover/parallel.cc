#include "common/quantize/recover/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace gq::quantize {
namespace {

constexpr double kLeastOperations = 4e6;  // about a millisecond

}  // namespace

absl::Status ForEach(size_t count, int threads, const std::function<absl::Status(size_t)>& work) {
  std::vector<absl::Status> results(count);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto take = [&] {
    for (size_t i = next++; i < count && !failed; i = next++) {
      results[i] = work(i);
      if (!results[i].ok()) failed = true;
    }
  };
  std::vector<std::thread> others;
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
  for (size_t i = 1; i < wanted; ++i) others.emplace_back(take);
  take();
  for (auto& other : others) other.join();
  for (auto& result : results) {
    if (!result.ok()) return std::move(result);
  }
  return absl::OkStatus();
}

int ThreadsFor(double operations, int threads) {
  return operations < kLeastOperations ? 1 : std::max(threads, 1);
}

}  // namespace gq::quantize
