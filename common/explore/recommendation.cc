#include "common/explore/recommendation.h"

namespace gq::explore {

std::string_view ChoiceName(Choice choice) {
  switch (choice) {
    case Choice::kInt8:
      return "vint8";
    case Choice::kMixed:
      return "mixed";
    case Choice::kNeither:
      return "neither";
    case Choice::kUndecided:
      return "undecided";
  }
  return "";
}

Choice Recommend(accuracy::VerdictResult bf16, accuracy::VerdictResult vint8) {
  using accuracy::VerdictResult;
  if (vint8 == VerdictResult::kGoalMet) return Choice::kInt8;
  if (vint8 == VerdictResult::kNotJudged) return Choice::kUndecided;
  return bf16 == VerdictResult::kGoalMet ? Choice::kMixed : Choice::kNeither;
}

std::string RecommendationText(Choice choice) {
  switch (choice) {
    case Choice::kInt8:
      return "full VINT8 meets the goal: run with --scheme vint8, no search is needed";
    case Choice::kMixed:
      return "VINT8 misses the goal and BF16 meets it: mixed precision, run with --explore "
             "--explore-strategy sensitivity";
    case Choice::kNeither:
      return "BF16 misses the goal too: change the architecture or loosen the goal "
             "(--target-accuracy, --atol, --rtol)";
    case Choice::kUndecided:
      return "the outputs cannot be judged here: validate VINT8 and BF16 outside, or give a goal "
             "with --target-accuracy";
  }
  return "";
}

CostEstimate EstimateCost(const CostMeasures& m) {
  CostEstimate estimate;
  estimate.full_run = m.optimize + m.quantize + m.recovery + m.evaluate;
  const double one_try = m.requantize + m.evaluate;
  estimate.greedy_least = (1 + m.most_promotions) * one_try;
  estimate.greedy_most = (1 + m.most_iterations) * one_try;
  // Ranking and growing a set, a few candidates on few samples, and at most two on all.
  const double runs = 2.0 * m.compute_layers + 14.0 * m.most_promotions;
  estimate.sensitivity =
      4 * runs * m.inference + 5 * m.requantize + 2 * (m.requantize + m.recovery + m.evaluate);
  return estimate;
}

}  // namespace gq::explore
