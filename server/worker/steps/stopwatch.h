// Seconds of the phases of a step, for its report.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "nlohmann/json.hpp"

namespace gq::worker {

class Stopwatch {
 public:
  // Ends a phase that began with the phase before, or with the stopwatch.
  void Lap(const std::string& phase) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[phase] = std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

  // Every phase, and `total`.
  nlohmann::json Seconds() const {
    nlohmann::json seconds = seconds_;
    double total = 0;
    for (const auto& [phase, value] : seconds_) total += value;
    seconds["total"] = total;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::map<std::string, double> seconds_;
};

}  // namespace gq::worker
