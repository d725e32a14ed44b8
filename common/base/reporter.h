// The one interface through which the engine tells what it does.
#pragma once

#include <cstdint>
#include <string_view>

namespace gq::base {

enum class LogLevel { kDebug, kInfo, kDone, kWarn, kError };

// How far a phase got. `total` is 0 when it is not known.
struct Progress {
  std::string_view component;  // e.g. "Calibrate"
  int64_t done = 0;
  int64_t total = 0;
  std::string_view unit;  // plural, e.g. "samples"
};

// Implementations are thread-safe and do not block for long. Texts may hold any bytes (names out of
// models); whoever shows them escapes them.
class Reporter {
 public:
  virtual ~Reporter() = default;

  virtual void Log(LogLevel level, std::string_view component, std::string_view text) = 0;

  // May be called as often as once a sample; the implementation thins out.
  virtual void Report(const Progress& progress) = 0;

  // True once the work should stop; long phases ask at least once a sample and then return
  // kCancelled.
  virtual bool Cancelled() const = 0;

  void Info(std::string_view component, std::string_view text) {
    Log(LogLevel::kInfo, component, text);
  }
  void Warn(std::string_view component, std::string_view text) {
    Log(LogLevel::kWarn, component, text);
  }
};

// Drops everything; for tests and for callers that only want the result.
class NullReporter : public Reporter {
 public:
  void Log(LogLevel, std::string_view, std::string_view) override {}
  void Report(const Progress&) override {}
  bool Cancelled() const override { return false; }
};

}  // namespace gq::base
