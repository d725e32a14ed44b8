// Reading a report whose parts may be missing or of another type than expected: every access has an
// answer.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace gq::report {

using Json = nlohmann::ordered_json;

// The value at a path of keys; a JSON null when there is none.
const Json& At(const Json& value, std::initializer_list<std::string_view> path);

// The text at a path; empty when there is none.
std::string TextAt(const Json& value, std::initializer_list<std::string_view> path);

// The number at a path; `inf`, `-inf` and `nan` are written as texts. Nothing when there is none.
std::optional<double> NumberAt(const Json& value, std::initializer_list<std::string_view> path);

bool TrueAt(const Json& value, std::initializer_list<std::string_view> path);

// Elements of the array at a path; an empty array when there is none.
const Json& ArrayAt(const Json& value, std::initializer_list<std::string_view> path);

// A number for people: `digits` after the point, `inf` as such, `-` for nothing.
std::string FormatNumber(std::optional<double> number, int digits = 2);
// Six significant digits, no trailing zeros.
std::string FormatGeneral(std::optional<double> number);
// `812 B`, `1.4 MB` (decimal), `-` for nothing.
std::string FormatBytes(std::optional<double> bytes);
// FormatDuration of common/base/log_format.h, `-` for nothing.
std::string FormatSeconds(std::optional<double> seconds);

// JSON text as an object; null when it is none. What is nested more than 64 levels deep is left
// out: every rendering walks the value recursively.
Json ParseObject(std::string_view text);

// A report, or an empty object when the text is none.
Json ParseReport(std::string_view report_json);

}  // namespace gq::report
