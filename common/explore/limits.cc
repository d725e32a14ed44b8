#include "common/explore/limits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::explore {
namespace {

using base::StrCat;

constexpr std::string_view kKeys =
    "precision, pass_rate, min_gain_db, patience, max_share, max_iterations, time_budget, keep, "
    "forbid";

absl::Status Refuse(std::string_view text, std::string_view expected) {
  return base::MakeError(base::Reason::kInvalidFlag,
                         StrCat("--explore-limit '", text, "': expected ", expected));
}

std::optional<double> Number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// `600`, `600s`, `10m`, `2h`.
std::optional<double> Seconds(std::string_view text) {
  double unit = 1;
  if (!text.empty()) {
    if (text.back() == 'm') unit = 60;
    if (text.back() == 'h') unit = 3600;
    if (text.back() == 's' || unit > 1) text.remove_suffix(1);
  }
  const auto value = Number(text);
  if (!value) return std::nullopt;
  return *value * unit;
}

void AddNames(std::string_view value, std::vector<std::string>& names) {
  for (const std::string_view name : base::StrSplit(value, ',')) {
    if (!base::StripSpace(name).empty()) names.emplace_back(base::StripSpace(name));
  }
}

struct PrecisionName {
  std::string_view upper, lower;
  int32_t precision;
};
constexpr PrecisionName kPrecisions[] = {{"BF16", "bf16", onnx::TensorProto::BFLOAT16},
                                         {"FP16", "fp16", onnx::TensorProto::FLOAT16},
                                         {"FP32", "fp32", onnx::TensorProto::FLOAT},
                                         {"INT16", "int16", onnx::TensorProto::INT16},
                                         {"INT8", "int8", onnx::TensorProto::INT8}};

const PrecisionName* FindPrecision(std::string_view name) {
  for (const PrecisionName& known : kPrecisions) {
    if (name == known.upper || name == known.lower) return &known;
  }
  return nullptr;
}

absl::Status Apply(std::string_view text, std::string_view key, std::string_view value,
                   Limits& limits) {
  const auto number = [&](double low, double high) -> std::optional<double> {
    const auto parsed = Number(value);
    return parsed && *parsed >= low && *parsed <= high ? parsed : std::nullopt;
  };
  const auto whole = [&](int* target) -> absl::Status {
    const auto parsed = number(1, 1e6);
    if (!parsed || *parsed != std::floor(*parsed)) return Refuse(text, "a whole number from 1 on");
    *target = static_cast<int>(*parsed);
    return absl::OkStatus();
  };
  if (key == "precision") {
    const PrecisionName* known = FindPrecision(value);
    if (known == nullptr) return Refuse(text, "BF16, FP16, FP32, INT16 or INT8");
    limits.precision = known->precision;
  } else if (key == "pass_rate") {
    const auto parsed = number(0, 100);
    if (!parsed) return Refuse(text, "percent, 0 to 100");
    limits.pass_rate = *parsed;
  } else if (key == "min_gain_db") {
    const auto parsed = number(0, 1000);
    if (!parsed) return Refuse(text, "decibels, like 0.5");
    limits.min_gain_db = *parsed;
  } else if (key == "patience") {
    return whole(&limits.patience);
  } else if (key == "max_share") {
    const auto parsed = number(0, 1);
    if (!parsed) return Refuse(text, "a share of the compute layers, 0 to 1, like 0.3");
    limits.max_share = *parsed;
  } else if (key == "max_iterations") {
    return whole(&limits.max_iterations);
  } else if (key == "time_budget") {
    const auto parsed = Seconds(value);
    if (!parsed || *parsed <= 0) return Refuse(text, "seconds, or a time like 10m or 2h");
    limits.time_budget = *parsed;
  } else if (key == "keep") {
    AddNames(value, limits.keep);
  } else if (key == "forbid") {
    AddNames(value, limits.forbid);
  } else {
    return Refuse(text, StrCat("one of the keys ", kKeys));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view PrecisionText(int32_t precision) {
  for (const PrecisionName& known : kPrecisions) {
    if (known.precision == precision) return known.lower;
  }
  return "";
}

int Limits::MostPromotions(int layers) const {
  // The products of decimal shares are a little off: 0.3 * 50 is 15.000000000000002.
  return static_cast<int>(std::ceil(max_share * layers - 1e-9));
}

int Limits::MostIterations(int layers) const { return std::min(max_iterations, layers); }

absl::StatusOr<Limits> ParseLimits(const std::vector<std::string>& texts) {
  Limits limits;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return Refuse(text, "KEY=VALUE, like max_share=0.3");
    const std::string_view view = text;
    GQ_RETURN_IF_ERROR(Apply(text, view.substr(0, equals), view.substr(equals + 1), limits));
  }
  return limits;
}

}  // namespace gq::explore
