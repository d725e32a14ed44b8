#include "common/report/json_view.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "absl/time/time.h"
#include "common/base/log_format.h"

namespace gq::report {
namespace {

constexpr int kMostLevels = 64;

const Json& NullValue() {
  static const auto& value = *new Json();
  return value;
}

std::string Printed(const char* format, int digits, double number) {
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), format, digits, number);
  return text.data();
}

}  // namespace

const Json& At(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* current = &value;
  for (std::string_view key : path) {
    if (!current->is_object()) return NullValue();
    const auto found = current->find(std::string(key));
    if (found == current->end()) return NullValue();
    current = &*found;
  }
  return *current;
}

std::string TextAt(const Json& value, std::initializer_list<std::string_view> path) {
  const Json& found = At(value, path);
  return found.is_string() ? found.get<std::string>() : std::string();
}

std::optional<double> NumberAt(const Json& value, std::initializer_list<std::string_view> path) {
  const Json& found = At(value, path);
  if (found.is_number()) return found.get<double>();
  if (!found.is_string()) return std::nullopt;
  const std::string text = found.get<std::string>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

bool TrueAt(const Json& value, std::initializer_list<std::string_view> path) {
  const Json& found = At(value, path);
  return found.is_boolean() && found.get<bool>();
}

const Json& ArrayAt(const Json& value, std::initializer_list<std::string_view> path) {
  static const auto& empty = *new Json(Json::array());
  const Json& found = At(value, path);
  return found.is_array() ? found : empty;
}

std::string FormatNumber(std::optional<double> number, int digits) {
  if (!number) return "-";
  if (std::isnan(*number)) return "nan";
  if (std::isinf(*number)) return *number > 0 ? "inf" : "-inf";
  return Printed("%.*f", digits, *number);
}

std::string FormatGeneral(std::optional<double> number) {
  if (!number || !std::isfinite(*number)) return FormatNumber(number);
  return Printed("%.*g", 6, *number);
}

std::string FormatBytes(std::optional<double> bytes) {
  if (!bytes || !std::isfinite(*bytes)) return "-";
  constexpr std::array kUnits = {" B", " kB", " MB", " GB", " TB"};
  double value = *bytes;
  size_t unit = 0;
  while (std::abs(value) >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return FormatNumber(value, unit == 0 ? 0 : 2) + kUnits[unit];
}

std::string FormatSeconds(std::optional<double> seconds) {
  if (!seconds || !std::isfinite(*seconds)) return "-";
  return base::FormatDuration(absl::Seconds(*seconds));
}

Json ParseObject(std::string_view text) {
  const auto not_too_deep = [](int depth, Json::parse_event_t, Json&) {
    return depth <= kMostLevels;
  };
  Json value = Json::parse(text, not_too_deep, /*allow_exceptions=*/false);
  return value.is_object() ? value : Json();
}

Json ParseReport(std::string_view report_json) {
  Json report = ParseObject(report_json);
  return report.is_object() ? report : Json::object();
}

}  // namespace gq::report
