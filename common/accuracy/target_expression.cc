#include "common/accuracy/target_expression.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::accuracy {
namespace {

using base::StrCat;

constexpr std::array<std::pair<Metric, std::string_view>, 9> kMetrics = {{
    {Metric::kPsnr, "psnr"},
    {Metric::kPassRate, "passrate"},
    {Metric::kCosine, "cosine"},
    {Metric::kMse, "mse"},
    {Metric::kMae, "mae"},
    {Metric::kMaxAbs, "max_abs"},
    {Metric::kTop1, "top1"},
    {Metric::kTop5, "top5"},
    {Metric::kSnr, "snr"},
}};

constexpr std::string_view kHint =
    "write METRIC OP NUMBER[%] with METRIC one of psnr, passrate, cosine, mse, mae, max_abs, top1, "
    "top5, snr and OP one of > >= < <=, for example psnr>=30, passrate>=99.9% or top1>=fp32-1%";

std::string Compact(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

// A finite decimal number that takes up all of `text`.
std::optional<double> ParseNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

absl::Status Invalid(std::string_view text, std::string_view what) {
  return base::MakeError(base::Reason::kTargetInvalid,
                         StrCat("target accuracy '", text, "': ", what), kHint);
}

}  // namespace

std::string_view MetricName(Metric metric) {
  for (const auto& [value, name] : kMetrics) {
    if (value == metric) return name;
  }
  return "";
}

bool IsPercentMetric(Metric metric) {
  return metric == Metric::kPassRate || metric == Metric::kTop1 || metric == Metric::kTop5;
}

bool TargetExpression::Holds(double value, double fp32) const {
  const double limit = relative_to_fp32 ? fp32 - bound : bound;
  switch (comparison) {
    case Comparison::kGreater:
      return value > limit;
    case Comparison::kGreaterEqual:
      return value >= limit;
    case Comparison::kLess:
      return value < limit;
    case Comparison::kLessEqual:
      return value <= limit;
  }
  return false;
}

absl::StatusOr<TargetExpression> ParseTarget(std::string_view text) {
  const std::string compact = Compact(text);
  std::string_view rest = compact;
  TargetExpression target;
  target.text = std::string(base::StripSpace(text));

  const size_t op = rest.find_first_of("<>=!");
  if (op == std::string_view::npos) return Invalid(target.text, "it has no comparison");
  const std::string_view name = rest.substr(0, op);
  const auto* metric = kMetrics.begin();
  while (metric != kMetrics.end() && metric->second != name) ++metric;
  if (metric == kMetrics.end()) {
    return Invalid(target.text, StrCat("'", name, "' is not a metric"));
  }
  target.metric = metric->first;

  rest.remove_prefix(op);
  if (rest.starts_with(">=")) {
    target.comparison = Comparison::kGreaterEqual;
    rest.remove_prefix(2);
  } else if (rest.starts_with("<=")) {
    target.comparison = Comparison::kLessEqual;
    rest.remove_prefix(2);
  } else if (rest.starts_with('>')) {
    target.comparison = Comparison::kGreater;
    rest.remove_prefix(1);
  } else if (rest.starts_with('<')) {
    target.comparison = Comparison::kLess;
    rest.remove_prefix(1);
  } else {
    return Invalid(target.text, "the comparison must be one of > >= < <=");
  }

  if (rest.starts_with("fp32")) {
    if (target.metric != Metric::kTop1 && target.metric != Metric::kTop5) {
      return Invalid(target.text, "only top1 and top5 can be compared with fp32");
    }
    target.relative_to_fp32 = true;
    rest.remove_prefix(4);
    if (rest.empty()) return target;
    if (!rest.starts_with('-') || !rest.ends_with('%')) {
      return Invalid(target.text,
                     "after fp32 a number of percentage points is expected, as in fp32-1%");
    }
    const auto points = ParseNumber(rest.substr(1, rest.size() - 2));
    if (!points || *points < 0 || *points > 100) {
      return Invalid(target.text, "the percentage points must be a number from 0 to 100");
    }
    target.bound = *points;
    return target;
  }

  const bool percent = rest.ends_with('%');
  if (percent) rest.remove_suffix(1);
  const auto number = ParseNumber(rest);
  if (!number) return Invalid(target.text, StrCat("'", rest, "' is not a number"));
  target.bound = *number;
  if (!IsPercentMetric(target.metric)) {
    if (percent) return Invalid(target.text, StrCat(name, " is not measured in percent"));
    if (target.metric == Metric::kCosine && std::abs(*number) > 1) {
      return Invalid(target.text, "a cosine lies between -1 and 1");
    }
    return target;
  }
  if (*number < 0 || *number > 100) {
    return Invalid(target.text, StrCat(name, " is a percentage from 0 to 100"));
  }
  if (!percent && *number > 0 && *number <= 1) {
    return Invalid(target.text, StrCat(name, " is measured in percent; write ", *number * 100,
                                       "% or ", *number, "%, whichever is meant"));
  }
  return target;
}

absl::StatusOr<std::vector<TargetExpression>> ParseTargets(const std::vector<std::string>& texts) {
  std::vector<TargetExpression> targets;
  for (const std::string& text : texts) {
    GQ_ASSIGN_OR_RETURN(TargetExpression target, ParseTarget(text));
    targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace gq::accuracy
