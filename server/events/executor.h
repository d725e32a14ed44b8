// Threads for work that blocks (ledger, files), and timers. Nothing of that runs on gRPC's threads.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace gq::server {

// Thread-safe.
class Executor {
 public:
  explicit Executor(int threads);
  // Waits for what is running; what has not begun is dropped.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(std::function<void()> work);
  void PostAfter(absl::Duration delay, std::function<void()> work);

  // What has not begun is dropped from now on; returns when nothing runs any more.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gq::server
