#include "common/report/summary.h"

#include <algorithm>
#include <vector>

#include "common/base/log_format.h"
#include "common/base/text.h"
#include "common/report/escape.h"
#include "common/report/figures.h"
#include "common/report/json_view.h"

namespace gq::report {
namespace {

using base::StrAppend;
using base::StrCat;
using base::StripControl;
using Rows = std::vector<std::vector<std::string>>;

std::string OneLine(const std::string& text) { return StripControl(text); }

// Columns padded with spaces; the first one to the left, the others to the right.
std::string Columns(const Rows& rows, std::string_view indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], OneLine(row[i]).size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = OneLine(row[i]);
      const std::string padding(widths[i] - cell.size(), ' ');
      if (i > 0) line += "  ";
      line += i == 0 ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string VerdictLine(const VerdictWords& verdict) {
  std::string line = verdict.result;
  if (verdict.default_goal) line += " (default goal)";
  if (!verdict.reason.empty()) StrAppend(&line, ": ", OneLine(verdict.reason));
  return line;
}

// Name of the job for headings: its own, else its model's, else its id.
std::string Title(const Json& report) {
  for (const char* key : {"name", "model", "id"}) {
    if (std::string text = TextAt(report, {"job", key}); !text.empty()) return text;
  }
  return "gq";
}

}  // namespace

std::string SummaryText(std::string_view report_json) {
  const Json report = ParseReport(report_json);
  std::string text;
  const VerdictWords verdict = VerdictOf(report);
  if (!verdict.result.empty()) {
    StrAppend(&text, "Verdict: ", VerdictLine(verdict), "\n");
    for (const Fact& goal : verdict.goals) {
      StrAppend(&text, "  ", OneLine(goal.name), "  ", OneLine(goal.value), "\n");
    }
    if (!verdict.default_result.empty()) {
      StrAppend(&text, "  default goal: ", OneLine(verdict.default_result), "\n");
    }
  } else if (const std::string state = TextAt(report, {"job", "state"});
             !state.empty() && state != "SUCCEEDED") {
    StrAppend(&text, "Verdict: none; job ", OneLine(state), "\n");
  }
  if (const Rows rows = OutputRows(report); !rows.empty()) {
    StrAppend(&text, "\nAccuracy\n", Columns(rows, "  "));
  }
  if (const std::vector<Fact> facts = FactsOf(report); !facts.empty()) {
    text += "\nResult\n";
    size_t width = 0;
    for (const Fact& fact : facts) width = std::max(width, fact.name.size());
    for (const Fact& fact : facts) {
      StrAppend(&text, "  ", fact.name, std::string(width - fact.name.size() + 2, ' '),
                OneLine(fact.value), "\n");
    }
  }
  if (const std::vector<WarningText> warnings = WarningsOf(report); !warnings.empty()) {
    StrAppend(&text, "\nWarnings (", CountOf(warnings), ")\n");
    for (const WarningText& warning : warnings) {
      StrAppend(&text, "  [", OneLine(warning.step), "] ", OneLine(warning.text), "\n");
    }
  }
  return text;
}

std::string SummaryMarkdown(std::string_view report_json) {
  const Json report = ParseReport(report_json);
  const VerdictWords verdict = VerdictOf(report);
  std::string text = StrCat("### ", EscapeMarkdown(Title(report)), "\n\n");
  if (!verdict.result.empty()) {
    StrAppend(&text, "**", verdict.result, "**", verdict.default_goal ? " (default goal)" : "");
    if (!verdict.reason.empty()) StrAppend(&text, ": ", EscapeMarkdown(verdict.reason));
    text += "\n\n";
    for (const Fact& goal : verdict.goals) {
      StrAppend(&text, "- ", EscapeMarkdown(goal.name), " ", EscapeMarkdown(goal.value), "\n");
    }
    if (!verdict.default_result.empty()) {
      StrAppend(&text, "- default goal: ", EscapeMarkdown(verdict.default_result), "\n");
    }
    text += "\n";
  }
  const auto row_text = [](const std::vector<std::string>& row) {
    std::string line = "|";
    for (const std::string& cell : row) StrAppend(&line, " ", EscapeMarkdown(cell), " |");
    return line + "\n";
  };
  if (const Rows rows = OutputRows(report); !rows.empty()) {
    text += row_text(rows[0]) + "|---|";
    for (size_t i = 1; i < rows[0].size(); ++i) text += "---:|";
    text += "\n";
    for (size_t i = 1; i < rows.size(); ++i) text += row_text(rows[i]);
    text += "\n";
  }
  if (const std::vector<Fact> facts = FactsOf(report); !facts.empty()) {
    text += "| | |\n|---|---|\n";
    for (const Fact& fact : facts) text += row_text({fact.name, fact.value});
    text += "\n";
  }
  if (const std::vector<WarningText> warnings = WarningsOf(report); !warnings.empty()) {
    StrAppend(&text, "<details><summary>", CountOf(warnings), " warnings</summary>\n\n");
    for (const WarningText& warning : warnings) {
      StrAppend(&text, "- ", EscapeMarkdown(warning.step), ": ", EscapeMarkdown(warning.text),
                "\n");
    }
    text += "\n</details>\n";
  }
  return text;
}

std::string LayersText(std::string_view report_json) {
  const Json report = ParseReport(report_json);
  Rows rows = {{"node", "operator", "precision", "bits", "operations %", "reason"}};
  double total = 0;
  const Json& layers = ArrayAt(report, {"graph_quantize", "layers"});
  for (const Json& layer : layers) total += NumberAt(layer, {"macs"}).value_or(0);
  for (const Json& layer : layers) {
    const auto macs = NumberAt(layer, {"macs"});
    rows.push_back({TextAt(layer, {"node"}), TextAt(layer, {"op"}), TextAt(layer, {"precision"}),
                    BitsText(layer), macs && total > 0 ? FormatNumber(100 * *macs / total) : "-",
                    TextAt(layer, {"reason"})});
  }
  if (rows.size() == 1) return "";
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], OneLine(row[i]).size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = OneLine(row[i]);
      text += cell;
      if (i + 1 < row.size()) text.append(widths[i] - cell.size() + 2, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace gq::report
