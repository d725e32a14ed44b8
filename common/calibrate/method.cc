#include "common/calibrate/method.h"

#include <charconv>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::calibrate {
namespace {

struct NamedMethod {
  Method method;
  std::string_view name;
};
constexpr NamedMethod kMethods[] = {
    {Method::kMinMax, "minmax"},
    {Method::kMovingAverage, "moving-average"},
    {Method::kNonOverflow, "nonoverflow"},
    {Method::kMinMse, "minmse"},
    {Method::kPercentile, "percentile"},
    {Method::kEntropy, "entropy"},
    {Method::kDistribution, "distribution"},
    {Method::kLayerwisePercentile, "layerwise-percentile"},
};

}  // namespace

GridLimits LimitsOf(Grid grid) {
  switch (grid) {
    case Grid::kInt8:
      return {-127, 127, 0};
    case Grid::kUint8:
      return {0, 255, 128};
    case Grid::kInt16:
      return {-32767, 32767, 0};
    case Grid::kUint16:
      return {0, 65535, 32768};
  }
  return {-127, 127, 0};
}

MethodSpec MethodSpec::Default(Method method) {
  MethodSpec spec{.method = method};
  switch (method) {
    case Method::kMinMax:
    case Method::kMovingAverage:
      break;
    case Method::kNonOverflow:
      spec.symmetric = true;
      break;
    case Method::kMinMse:
      spec.symmetric = true;
      spec.bins = 2048;
      break;
    case Method::kPercentile:
      spec.symmetric = true;
      spec.bins = 2048;
      break;
    case Method::kEntropy:
      spec.bins = 128;
      break;
    case Method::kDistribution:
      spec.bins = 2048;
      break;
    case Method::kLayerwisePercentile:
      spec.symmetric = true;
      spec.bins = 2048;
      spec.candidates = {99.99, 99.999, 99.99999};
      break;
  }
  return spec;
}

std::string MethodSpec::Key() const {
  std::string key =
      base::StrCat(MethodName(method), " symmetric=", symmetric ? 1 : 0, " bins=", bins);
  if (method == Method::kEntropy) base::StrAppend(&key, " quantized_bins=", quantized_bins);
  if (method == Method::kPercentile) base::StrAppend(&key, " percentile=", percentile);
  if (method == Method::kMinMse && mode == MinMseMode::kMostCommon) key += " mostcommon";
  if (method == Method::kLayerwisePercentile) {
    base::StrAppend(&key, " candidates=", base::StrJoin(candidates, ","),
                    squared_error ? " mse" : " mae");
  }
  return key;
}

std::string_view MethodName(Method method) {
  for (const NamedMethod& named : kMethods) {
    if (named.method == method) return named.name;
  }
  return "";
}

absl::StatusOr<MethodSpec> ParseMethod(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const NamedMethod& named : kMethods) {
    if (named.name != name) continue;
    MethodSpec spec = MethodSpec::Default(named.method);
    if (colon == std::string_view::npos) return spec;
    const std::string_view number = text.substr(colon + 1);
    const auto parsed =
        std::from_chars(number.data(), number.data() + number.size(), spec.percentile);
    if (named.method == Method::kPercentile && parsed.ec == std::errc() &&
        parsed.ptr == number.data() + number.size() && spec.percentile > 0 &&
        spec.percentile <= 100) {
      return spec;
    }
    return base::MakeError(
        base::Reason::kInvalidFlag,
        base::StrCat("calibration method '", text, "': expected percentile:P with 0 < P <= 100"));
  }
  std::vector<std::string_view> names;
  for (const NamedMethod& named : kMethods) names.push_back(named.name);
  return base::MakeError(
      base::Reason::kInvalidFlag,
      base::StrCat("calibration method '", text, "' is not one of ", base::StrJoin(names, ", ")),
      "percentile takes a number: percentile:99.9");
}

}  // namespace gq::calibrate
