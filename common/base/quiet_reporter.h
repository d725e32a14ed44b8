// A reporter for work that is done again or many times over, whose own words would hide the rest.
#pragma once

#include <string_view>

#include "common/base/reporter.h"

namespace gq::base {

// Drops log and progress, and hands on whether the user has cancelled. `next` must outlive it.
class QuietReporter : public Reporter {
 public:
  explicit QuietReporter(const Reporter& next) : next_(next) {}
  void Log(LogLevel, std::string_view, std::string_view) override {}
  void Report(const Progress&) override {}
  bool Cancelled() const override { return next_.Cancelled(); }

 private:
  const Reporter& next_;
};

}  // namespace gq::base
