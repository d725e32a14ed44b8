// JSON whose values know where they stand, for errors that name line, column and path.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::quantize {

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0;
  std::string text;  // of a string; the digits of a number as they were written
  std::vector<JsonValue> items;
  std::vector<std::pair<std::string, JsonValue>> members;  // in order, keys are unique
  int line = 1;
  int column = 1;

  bool is_null() const { return kind == Kind::kNull; }
  const JsonValue* Find(std::string_view key) const;
};

std::string_view JsonKindName(JsonValue::Kind kind);  // "null", "true or false", "a number", ...

// CONFIG_INVALID with `name`, line and column for anything that RFC 8259 does not allow, duplicate
// keys and more than 64 levels.
absl::StatusOr<JsonValue> ParseJson(std::string_view text, std::string_view name);

}  // namespace gq::quantize
