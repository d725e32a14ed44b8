// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace gq::cli {

// Rows of cells, the first one the heading; every column as wide as its widest cell, two spaces
// between. Cells are stripped of what could act on a terminal.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Render() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gq::cli
