// Warnings of one kind, told once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gq::report {

struct WarningGroup {
  std::string text;  // the first of its kind, with "(and N more of this kind)" where there are more
  size_t count = 1;
};

// Texts that differ only in what stands between single quotes and in numbers are of one kind. Two
// of a kind stay two; from three on they become one group. In order of first appearance.
std::vector<WarningGroup> GroupWarnings(const std::vector<std::string>& texts);

// The text without quoted names and numbers.
std::string WarningKind(std::string_view text);

}  // namespace gq::report
