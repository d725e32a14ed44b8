// Shows a run in the foreground: rendered log lines, or one JSON object a line.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/log_format.h"
#include "common/base/reporter.h"
#include "common/job/flags.h"
#include "nlohmann/json.hpp"

namespace gq::worker {

// Thread-safe. Writes to standard output, errors to standard error.
class ForegroundReporter : public base::Reporter {
 public:
  explicit ForegroundReporter(const job::LocalOptions& options);

  // Makes Cancelled() true at the first SIGINT or SIGTERM; the second one ends the process.
  static void InstallSignalHandlers();

  void Log(base::LogLevel level, std::string_view component, std::string_view text) override;
  void Report(const base::Progress& progress) override;
  bool Cancelled() const override;

  // Shows what is left of the log, and the text after it. `result` is what --json gives instead.
  void Finish(const std::string& text, nlohmann::json result);

 private:
  void Write(std::string_view text);
  void WriteJson(const nlohmann::json& object);
  void ClearLiveLine();

  const bool json_;
  const bool live_;  // standard output is a terminal
  std::mutex mutex_;
  base::LogRenderer renderer_;
  bool live_line_ = false;
  std::chrono::steady_clock::time_point last_live_;
};

// `error: MESSAGE (REASON)` and `hint: WHAT TO DO` on standard error; with `json` an object
// {"error": ...} with the same parts on standard output. Returns the exit code of the reason.
int PrintError(const absl::Status& error, bool json);

}  // namespace gq::worker
