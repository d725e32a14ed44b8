// Whether an evaluation met its goal: the user's own, or the default one of the task type.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/accuracy/detection_match.h"
#include "common/accuracy/output_report.h"
#include "common/accuracy/target_expression.h"
#include "common/graph/analysis.h"

namespace gq::accuracy {

enum class VerdictResult { kGoalMet, kGoalNotMet, kNotJudged };

// `goal_met`, `goal_not_met`, `not_judged`.
std::string_view VerdictResultName(VerdictResult result);

struct Judgement {
  VerdictResult result = VerdictResult::kNotJudged;
  std::string reason;  // one sentence with the deciding figures
};

// One target expression on the output where it fares worst.
struct GoalResult {
  std::string expression;
  double value = 0;
  std::string output;
  bool met = false;
};

struct Verdict {
  VerdictResult result = VerdictResult::kNotJudged;
  std::string reason;
  bool default_goal = true;       // no target expression was given
  std::vector<GoalResult> goals;  // worst first
  Judgement default_judgement;    // of the task type's default goal, always
};

// The default goal of the task type (workflow.md, "Verdict by task type"); of several outputs each
// counts by its kind, those with one row of class scores a sample by their winner. `detection` is
// absent when the outputs are no decoded boxes. An output with a NaN or an infinity that the
// reference does not have misses every goal.
Judgement JudgeByTask(graph::TaskType task, std::span<const OutputReport> outputs,
                      const std::optional<DetectionFigures>& detection);

// Every target on every float output (top1 and top5: on every output with classes).
std::vector<GoalResult> JudgeTargets(std::span<const TargetExpression> targets,
                                     std::span<const OutputReport> outputs);

// The whole verdict. With `random_data` nothing is judged, but the goals are still listed.
Verdict Judge(graph::TaskType task, std::span<const TargetExpression> targets,
              std::span<const OutputReport> outputs,
              const std::optional<DetectionFigures>& detection, bool random_data);

// Figure of `metric` on one output, in percent for percentages; nothing when it has none.
std::optional<double> MetricValue(Metric metric, const OutputReport& output);

}  // namespace gq::accuracy
