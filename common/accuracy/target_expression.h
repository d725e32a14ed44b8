// Accuracy goals in words: `psnr>30`, `passrate>=99.9%`, `top1>=fp32-1%`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::accuracy {

enum class Metric { kPsnr, kPassRate, kCosine, kMse, kMae, kMaxAbs, kTop1, kTop5, kSnr };
enum class Comparison { kGreater, kGreaterEqual, kLess, kLessEqual };

// Name of a metric as it is written in an expression.
std::string_view MetricName(Metric metric);

// True for passrate, top1 and top5, which are measured in percent.
bool IsPercentMetric(Metric metric);

// `METRIC OP NUMBER[%]` or, for top1 and top5, `METRIC OP fp32[-NUMBER%]`. Blanks and upper case do
// not matter. Percent metrics count in percent with or without the sign, which is required for
// bounds of 1 and less, where a share may have been meant.
struct TargetExpression {
  std::string text;  // as the user wrote it, without blanks around it
  Metric metric = Metric::kPsnr;
  Comparison comparison = Comparison::kGreaterEqual;
  double bound = 0;               // without `relative`: the number; with it: the points under FP32
  bool relative_to_fp32 = false;  // the goal is FP32's own figure minus `bound` percentage points

  // Whether `value` meets the goal; NaN never does. `fp32` is the baseline's figure.
  bool Holds(double value, double fp32 = 100) const;
};

// TARGET_INVALID, with the metrics and the form in the hint.
absl::StatusOr<TargetExpression> ParseTarget(std::string_view text);
absl::StatusOr<std::vector<TargetExpression>> ParseTargets(const std::vector<std::string>& texts);

}  // namespace gq::accuracy
