#include "common/explore/stopping_rule.h"

#include <algorithm>
#include <cstdio>

#include "common/base/text.h"

namespace gq::explore {
namespace {

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

std::string_view DecisionName(Decision decision) {
  switch (decision) {
    case Decision::kPromoted:
      return "promoted";
    case Decision::kSkipped:
      return "skipped";
    case Decision::kRolledBack:
      return "rolled-back";
  }
  return "";
}

std::string StopText(StopReason reason, const Limits& limits) {
  switch (reason) {
    case StopReason::kPassRate:
      return base::StrCat("the pass rate reached ", Short(limits.pass_rate), " %");
    case StopReason::kGoalMet:
      return "the goal is met";
    case StopReason::kSmallGains:
      return base::StrCat("the last ", limits.patience, " promotions gained less than ",
                          Short(limits.min_gain_db), " dB each (min_gain_db, patience)");
    case StopReason::kShare:
      return base::StrCat("the share of promoted compute layers reached ",
                          Short(limits.max_share * 100), " % (max_share)");
    case StopReason::kIterations:
      return base::StrCat("the number of tries reached its limit of ", limits.max_iterations,
                          " (max_iterations)");
    case StopReason::kNoLayersLeft:
      return "every compute layer was tried";
    case StopReason::kTimeBudget:
      return "the time is used up (time_budget)";
  }
  return "";
}

StoppingRule::StoppingRule(const Limits& limits, int compute_layers, const Measure& start,
                           bool start_meets_goal)
    : limits_(limits), compute_layers_(compute_layers), best_(start) {
  CheckStop(start_meets_goal);
}

Decision StoppingRule::Try(const Measure& measure, bool meets_goal) {
  ++tries_;
  Decision decision = Decision::kPromoted;
  if (measure.pass_rate < best_.pass_rate) {
    decision = Decision::kRolledBack;
  } else if (measure.pass_rate == best_.pass_rate && !(measure.psnr_db > best_.psnr_db)) {
    decision = Decision::kSkipped;
  } else {
    gains_.push_back(measure.psnr_db - best_.psnr_db);
    best_ = measure;
    ++promoted_;
  }
  CheckStop(decision == Decision::kPromoted && meets_goal);
  return decision;
}

void StoppingRule::CheckStop(bool meets_goal) {
  const auto patience = static_cast<size_t>(limits_.patience);
  const bool small_gains =
      gains_.size() >= patience &&
      std::all_of(gains_.end() - static_cast<std::ptrdiff_t>(patience), gains_.end(),
                  [this](double gain) { return gain < limits_.min_gain_db; });
  if (meets_goal) {
    stop_ = StopReason::kGoalMet;
  } else if (best_.pass_rate >= limits_.pass_rate) {
    stop_ = StopReason::kPassRate;
  } else if (small_gains) {
    stop_ = StopReason::kSmallGains;
  } else if (promoted_ >= limits_.MostPromotions(compute_layers_)) {
    stop_ = StopReason::kShare;
  } else if (tries_ >= limits_.max_iterations) {
    stop_ = StopReason::kIterations;
  } else if (tries_ >= compute_layers_) {
    stop_ = StopReason::kNoLayersLeft;
  }
}

}  // namespace gq::explore
