#include "client/cli/table.h"

#include <algorithm>
#include <string_view>

#include "common/base/log_format.h"

namespace gq::cli {
namespace {

// Characters of UTF-8 text.
size_t Width(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

}  // namespace

std::string Table::Render() const {
  std::vector<std::vector<std::string>> rows = rows_;
  std::vector<size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = base::StripControl(row[i]);
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string result;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

}  // namespace gq::cli
