// What to do next, from how a model fares in bfloat16 and in int8 (reference ve2.md a.2).
#pragma once

#include <string>
#include <string_view>

#include "common/accuracy/verdict.h"

namespace gq::explore {

enum class Choice {
  kInt8,       // VINT8 meets the goal
  kMixed,      // it does not, but BF16 does: mixed precision, searched
  kNeither,    // both miss it: another architecture, or a looser goal
  kUndecided,  // the outputs cannot be judged here
};
std::string_view ChoiceName(Choice choice);  // "vint8", "mixed", "neither", "undecided"

Choice Recommend(accuracy::VerdictResult bf16, accuracy::VerdictResult vint8);

// One or two sentences with the reason and what to run.
std::string RecommendationText(Choice choice);

// What the rest of the work would cost, in seconds.
struct CostMeasures {
  double optimize = 0;
  double quantize = 0;    // without recovery, calibration included
  double requantize = 0;  // the same with the calibration done
  double recovery = 0;
  double evaluate = 0;   // one candidate on all samples
  double inference = 0;  // one run of a candidate
  int compute_layers = 0;
  int most_promotions = 0;
  int most_iterations = 0;
};
struct CostEstimate {
  double full_run = 0;      // to the end of Evaluate
  double greedy_least = 0;  // every try is a promotion
  double greedy_most = 0;   // as many tries as allowed
  double sensitivity = 0;
};
CostEstimate EstimateCost(const CostMeasures& measures);

}  // namespace gq::explore
