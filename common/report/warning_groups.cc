#include "common/report/warning_groups.h"

#include <map>

#include "common/base/text.h"

namespace gq::report {
namespace {

constexpr size_t kFewest = 3;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string WarningKind(std::string_view text) {
  std::string kind;
  for (size_t i = 0; i < text.size();) {
    const size_t end = text[i] == '\'' ? text.find('\'', i + 1) : std::string_view::npos;
    if (end != std::string_view::npos) {
      kind += "''";
      i = end + 1;
    } else if (IsDigit(text[i])) {
      kind += '0';
      while (i < text.size() && IsDigit(text[i])) ++i;
    } else {
      kind += text[i++];
    }
  }
  return kind;
}

std::vector<WarningGroup> GroupWarnings(const std::vector<std::string>& texts) {
  std::map<std::string, size_t> counts;
  for (const auto& text : texts) ++counts[WarningKind(text)];
  std::vector<WarningGroup> groups;
  for (const auto& text : texts) {
    size_t& count = counts[WarningKind(text)];
    if (count == 0) continue;
    if (count < kFewest) {
      groups.push_back({text, 1});
      continue;
    }
    groups.push_back({base::StrCat(text, " (and ", count - 1, " more of this kind)"), count});
    count = 0;
  }
  return groups;
}

}  // namespace gq::report
