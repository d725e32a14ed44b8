#include "common/job/exec_condition.h"

#include <cmath>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "nlohmann/json.hpp"

namespace gq::job {
namespace {

using base::StrCat;

constexpr std::string_view kFullOffload = "full-offload";
constexpr std::string_view kOffload = "offload>=";
constexpr double kFull = 100;

// The share asked for, in percent; nothing when there is no condition or it is malformed.
std::optional<double> WantedPercent(std::string_view condition) {
  if (condition == kFullOffload) return kFull;
  if (condition.substr(0, kOffload.size()) != kOffload) return std::nullopt;
  std::string number(condition.substr(kOffload.size()));
  if (!number.empty() && number.back() == '%') number.pop_back();
  char* end = nullptr;
  const double percent = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(percent >= 0 && percent <= kFull)) return std::nullopt;
  return percent;
}

bool Always(std::string_view condition) { return condition.empty() || condition == "always"; }

}  // namespace

absl::Status CheckExecCondition(std::string_view condition) {
  if (Always(condition) || WantedPercent(condition)) return absl::OkStatus();
  return base::MakeError(base::Reason::kInvalidFlag,
                         StrCat("field `exec_if`: '", condition, "' is not a condition"),
                         "use always, full-offload or offload>=N%, e.g. offload>=98%");
}

std::string WhyNotExecuted(std::string_view condition, std::string_view compile_report) {
  if (Always(condition)) return "";
  const double wanted = WantedPercent(condition).value_or(kFull);
  const auto report = nlohmann::json::parse(compile_report, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("offload") || !report["offload"].is_object() ||
      !report["offload"].contains("gops_percent") ||
      !report["offload"]["gops_percent"].is_number()) {
    return StrCat("the partition report has no offload figure, and --exec-if ", condition,
                  " was asked for");
  }
  const double percent = report["offload"]["gops_percent"].get<double>();
  if (percent >= wanted) {
    const auto npu = report.value("/partitions/npu"_json_pointer, nlohmann::json());
    if (condition != kFullOffload || !npu.is_number() || npu.get<int>() == 1) return "";
    return StrCat("the NPU runs ", npu.get<int>(), " partitions, full-offload asks for one");
  }
  return absl::StrFormat("offload %.4g %% is below %.4g %%", percent, wanted);
}

}  // namespace gq::job
