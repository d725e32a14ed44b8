#include "common/accuracy/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "common/base/text.h"

namespace gq::accuracy {
namespace {

using base::StrCat;

constexpr double kAgreementGoal = 99;
constexpr int64_t kAllBelow = 100;  // with fewer samples every one has to agree
constexpr double kPsnrGoal = 30;
constexpr double kPassRateGoal = 99.9;
constexpr double kMatchedGoal = 99;

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

Judgement Met(bool met, std::string reason) {
  return {met ? VerdictResult::kGoalMet : VerdictResult::kGoalNotMet, std::move(reason)};
}

bool ClassesMet(const ClassFigures& f) {
  return f.agreement >= (f.rows < kAllBelow ? 100 : kAgreementGoal);
}

std::string ClassReason(const OutputReport& output) {
  const ClassFigures& f = *output.classes;
  return StrCat("output '", output.name, "' has the same top-1 class as FP32 on ",
                Fixed(f.agreement, 2), " % of ", f.rows, " samples, wanted ",
                f.rows < kAllBelow ? "all of them (fewer than 100 samples)" : "at least 99 %");
}

Judgement JudgeClassification(std::span<const OutputReport> outputs) {
  const OutputReport* worst = nullptr;
  for (const OutputReport& output : outputs) {
    if (!output.classes) continue;
    if (worst == nullptr || output.classes->agreement < worst->classes->agreement) worst = &output;
  }
  return Met(ClassesMet(*worst->classes), ClassReason(*worst));
}

Judgement JudgeSegmentation(std::span<const OutputReport> outputs) {
  double worst = 0;
  std::string name;
  for (const OutputReport& output : outputs) {
    if (!output.classes && output.is_float) continue;
    const double agreement = output.classes ? output.classes->agreement : output.figures.pass_rate;
    if (name.empty() || agreement < worst) {
      worst = agreement;
      name = output.name;
    }
  }
  return Met(worst >= kAgreementGoal, StrCat("output '", name, "' has the same class as FP32 on ",
                                             Fixed(worst, 2), " % of the pixels, wanted 99 %"));
}

Judgement JudgeDetection(const DetectionFigures& f) {
  if (f.reference_boxes == 0 && f.candidate_boxes == 0) {
    return {VerdictResult::kNotJudged,
            StrCat("needs external validation: neither model found a box with a score of ",
                   DetectionMatcher::kMinScore, " on this data")};
  }
  const double share = std::min(f.recall, f.precision);
  return Met(
      share >= kMatchedGoal,
      StrCat(f.matched, " of ", f.reference_boxes, " FP32 boxes are matched with IoU >= 0.5 ",
             "and equal class by ", f.candidate_boxes, " boxes, wanted 99 %"));
}

// How one output of several fares by its own kind: class scores of a sample by their winner, what
// else is float by its values.
struct OwnVerdict {
  bool met = true;
  double margin = 0;  // decibels or percentage points above the goal; tells which is worst
};

OwnVerdict JudgeAlone(const OutputReport& output, bool by_class) {
  if (by_class) {
    const ClassFigures& f = *output.classes;
    return {ClassesMet(f), f.agreement - (f.rows < kAllBelow ? 100 : kAgreementGoal)};
  }
  const bool rate = !output.PassRateDecides() || output.figures.pass_rate >= kPassRateGoal;
  return {output.figures.psnr_db >= kPsnrGoal && rate, output.figures.psnr_db - kPsnrGoal};
}

std::string ValueReason(const OutputReport& output) {
  std::string reason = StrCat("output '", output.name, "' has PSNR ",
                              Fixed(output.figures.psnr_db, 2), " dB, wanted at least 30 dB");
  if (output.PassRateDecides()) {
    base::StrAppend(&reason, ", and pass rate ", Fixed(output.figures.pass_rate, 2),
                    " %, wanted at least 99.9 %");
  }
  return reason;
}

Judgement JudgeRegression(std::span<const OutputReport> outputs) {
  const auto floats = std::count_if(outputs.begin(), outputs.end(),
                                    [](const OutputReport& output) { return output.is_float; });
  const OutputReport* worst = nullptr;
  OwnVerdict least;
  bool any_undecided = false, worst_by_class = false;
  for (const OutputReport& output : outputs) {
    if (!output.is_float) continue;
    const bool by_class =
        floats > 1 && output.classes && output.classes->rows == output.figures.samples;
    const OwnVerdict own = JudgeAlone(output, by_class);
    any_undecided = any_undecided || (!by_class && !output.PassRateDecides());
    if (worst == nullptr || (least.met && !own.met) ||
        (least.met == own.met && own.margin < least.margin)) {
      worst = &output;
      least = own;
      worst_by_class = by_class;
    }
  }
  if (worst == nullptr) {
    return {VerdictResult::kNotJudged, "needs external validation: the model has no float output"};
  }
  std::string reason = worst_by_class ? ClassReason(*worst) : ValueReason(*worst);
  if (any_undecided) {
    base::StrAppend(&reason,
                    "; PSNR alone decides where the output's own quantization step is wider than "
                    "the tolerances of the pass rate");
  }
  return Met(least.met, std::move(reason));
}

}  // namespace

std::string_view VerdictResultName(VerdictResult result) {
  switch (result) {
    case VerdictResult::kGoalMet:
      return "goal_met";
    case VerdictResult::kGoalNotMet:
      return "goal_not_met";
    case VerdictResult::kNotJudged:
      return "not_judged";
  }
  return "";
}

std::optional<double> MetricValue(Metric metric, const OutputReport& output) {
  const OutputFigures& f = output.figures;
  if (metric == Metric::kTop1 || metric == Metric::kTop5) {
    if (!output.classes) return std::nullopt;
    const ClassFigures& c = *output.classes;
    if (metric == Metric::kTop1) return c.labelled > 0 ? c.top1 : c.agreement;
    return c.labelled > 0 ? c.top5 : c.top5_agreement;
  }
  if (!output.is_float) return std::nullopt;
  switch (metric) {
    case Metric::kPsnr:
      return f.psnr_db;
    case Metric::kPassRate:
      return f.pass_rate;
    case Metric::kCosine:
      return f.cosine;
    case Metric::kMse:
      return f.mse;
    case Metric::kMae:
      return f.mae;
    case Metric::kMaxAbs:
      return f.max_abs;
    case Metric::kSnr:
      return f.snr_db;
    default:
      return std::nullopt;
  }
}

Judgement JudgeByTask(graph::TaskType task, std::span<const OutputReport> outputs,
                      const std::optional<DetectionFigures>& detection) {
  for (const OutputReport& output : outputs) {
    if (output.Broken()) {
      return Met(false, StrCat("output '", output.name,
                               "' holds NaN or infinity where the reference has other values"));
    }
  }
  const auto has_classes = [](const OutputReport& o) { return o.classes.has_value(); };
  const bool classes = std::any_of(outputs.begin(), outputs.end(), has_classes);
  const bool labels = std::any_of(outputs.begin(), outputs.end(),
                                  [](const OutputReport& o) { return !o.is_float; });
  switch (task) {
    case graph::TaskType::kClassification:
      if (classes) return JudgeClassification(outputs);
      break;
    case graph::TaskType::kSegmentation:
      if (classes || labels) return JudgeSegmentation(outputs);
      break;
    case graph::TaskType::kDetection:
      if (detection) return JudgeDetection(*detection);
      return {
          VerdictResult::kNotJudged,
          "needs external validation: the outputs of this detection model are no decoded boxes"};
    case graph::TaskType::kRegression:
      break;
  }
  return JudgeRegression(outputs);
}

std::vector<GoalResult> JudgeTargets(std::span<const TargetExpression> targets,
                                     std::span<const OutputReport> outputs) {
  std::vector<GoalResult> results;
  for (const TargetExpression& target : targets) {
    GoalResult worst{target.text, std::nan(""), "", false};
    const bool larger_is_better =
        target.comparison == Comparison::kGreater || target.comparison == Comparison::kGreaterEqual;
    for (const OutputReport& output : outputs) {
      const std::optional<double> value = MetricValue(target.metric, output);
      if (!value) continue;
      double fp32 = 100;
      if (output.classes && output.classes->labelled > 0) {
        fp32 = target.metric == Metric::kTop1 ? output.classes->reference_top1
                                              : output.classes->reference_top5;
      }
      const bool met = !output.Broken() && target.Holds(*value, fp32);
      const bool worse = larger_is_better ? *value < worst.value : *value > worst.value;
      if (worst.output.empty() || (worst.met && !met) ||
          (worst.met == met && (worse || std::isnan(*value)))) {
        worst.value = *value;
        worst.output = output.name;
        worst.met = met;
      }
    }
    results.push_back(std::move(worst));
  }
  std::stable_partition(results.begin(), results.end(), [](const GoalResult& g) { return !g.met; });
  return results;
}

Verdict Judge(graph::TaskType task, std::span<const TargetExpression> targets,
              std::span<const OutputReport> outputs,
              const std::optional<DetectionFigures>& detection, bool random_data) {
  Verdict verdict;
  verdict.default_judgement = JudgeByTask(task, outputs, detection);
  verdict.goals = JudgeTargets(targets, outputs);
  verdict.default_goal = targets.empty();
  if (random_data) {
    const char* reason = "the data is random, so the figures say little about real use";
    verdict.default_judgement = {VerdictResult::kNotJudged, reason};
    verdict.reason = reason;
    return verdict;
  }
  if (targets.empty()) {
    verdict.result = verdict.default_judgement.result;
    verdict.reason = verdict.default_judgement.reason;
    return verdict;
  }
  const auto missed = std::count_if(verdict.goals.begin(), verdict.goals.end(),
                                    [](const GoalResult& g) { return !g.met; });
  verdict.result = missed == 0 ? VerdictResult::kGoalMet : VerdictResult::kGoalNotMet;
  for (const GoalResult& goal : verdict.goals) {
    base::StrAppend(&verdict.reason, verdict.reason.empty() ? "" : "; ", goal.expression,
                    goal.met ? " holds" : " does not hold", " (", Fixed(goal.value, 4),
                    " on output '", goal.output, "')");
  }
  return verdict;
}

}  // namespace gq::accuracy
