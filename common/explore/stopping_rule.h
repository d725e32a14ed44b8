// When the documented search goes on, takes a promotion back, and stops (spec/engine.md 10).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/explore/limits.h"

namespace gq::explore {

// Figures of a candidate, each of its worst output.
struct Measure {
  double pass_rate = 0;  // percent
  double psnr_db = 0;
};

enum class Decision {
  kPromoted,    // better than the best so far: the layer stays promoted
  kSkipped,     // equal pass rate and no higher PSNR
  kRolledBack,  // lower pass rate
};
std::string_view DecisionName(Decision decision);  // "promoted", "skipped", "rolled-back"

enum class StopReason {
  kPassRate,      // the pass rate is reached
  kGoalMet,       // the goal of the job is
  kSmallGains,    // each of the last promotions gained too little
  kShare,         // the share of promoted layers is reached
  kIterations,    // as many tries as allowed
  kNoLayersLeft,  // every layer was tried
  kTimeBudget,
};
// What limits the search in words, for log and report.
std::string StopText(StopReason reason, const Limits& limits);

// Follows the documented search over tries that somebody else makes.
class StoppingRule {
 public:
  // `start` is the candidate without promotions.
  StoppingRule(const Limits& limits, int compute_layers, const Measure& start,
               bool start_meets_goal = false);

  // One layer tried on top of those that were promoted. Not to be called after a stop.
  Decision Try(const Measure& measure, bool meets_goal = false);

  // Why no further try is made; nothing while the search goes on.
  std::optional<StopReason> stop() const { return stop_; }
  const Measure& best() const { return best_; }
  int promoted() const { return promoted_; }
  int tries() const { return tries_; }

 private:
  void CheckStop(bool meets_goal);

  const Limits limits_;
  const int compute_layers_;
  Measure best_;
  int promoted_ = 0;
  int tries_ = 0;
  std::vector<double> gains_;  // dB of each kept promotion
  std::optional<StopReason> stop_;
};

}  // namespace gq::explore
