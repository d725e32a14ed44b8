// The log of one step: progress as lines a person can read, and the warnings kept for the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/reporter.h"

namespace gq::worker {

// `32/128 samples, 11.2 samples/s, ETA 9s`; without a total or a rate what is known. `counted` of
// the units were done in the last `seconds`.
std::string ProgressText(const base::Progress& progress, int64_t counted, double seconds);

// Passes everything on to `next`, and adds: a log line about the progress of a phase that takes
// long (after one second, then every five), one when such a phase is over, and a list of warnings,
// each text once. Thread-safe.
class StepLog : public base::Reporter {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // `next` must outlive the log.
  explicit StepLog(base::Reporter& next, Clock clock = std::chrono::steady_clock::now)
      : next_(next), clock_(std::move(clock)) {}

  // Every text goes through `rewrite` first. To be called before the log is used.
  void SetRewrite(std::function<std::string(std::string_view)> rewrite) {
    rewrite_ = std::move(rewrite);
  }

  void Log(base::LogLevel level, std::string_view component, std::string_view text) override;
  void Report(const base::Progress& progress) override;
  bool Cancelled() const override { return next_.Cancelled(); }

  std::vector<std::string> warnings() const;

 private:
  base::Reporter& next_;
  Clock clock_;
  std::function<std::string(std::string_view)> rewrite_;
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::string component_;   // of the phase whose progress is being reported
  int64_t first_done_ = 0;  // done when the clock of the phase started
  int64_t last_done_ = 0;
  std::chrono::steady_clock::time_point begin_, last_line_;
  bool line_written_ = false;
};

}  // namespace gq::worker
