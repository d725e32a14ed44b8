// Quark's extra_options by key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/quantize/extra_options.h"

namespace gq::quantize {

enum class OptionSupport {
  kApplied,  // has a field in ExtraOptions
  kIgnored,  // only speed, logging or checks: accepted with a warning
  kRefused,  // would change the result and is not there: an error unless it is false, 0 or empty
};

using OptionField =
    std::variant<std::monostate, std::optional<bool> ExtraOptions::*,
                 std::optional<int64_t> ExtraOptions::*, std::optional<double> ExtraOptions::*,
                 std::optional<std::string> ExtraOptions::*,
                 std::optional<std::vector<std::string>> ExtraOptions::*,
                 std::optional<std::vector<double>> ExtraOptions::*>;

struct OptionRow {
  std::string_view key;
  OptionSupport support = OptionSupport::kApplied;
  OptionField field;
};

// In alphabetical order of the keys.
std::span<const OptionRow> OptionTable();
// Null for a key that Quark does not have.
const OptionRow* FindOption(std::string_view key);

}  // namespace gq::quantize
