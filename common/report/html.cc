#include "common/report/html.h"

#include <algorithm>
#include <vector>

#include "common/base/text.h"
#include "common/report/escape.h"
#include "common/report/figures.h"
#include "common/report/html_charts.h"
#include "common/report/html_style.h"
#include "common/report/json_view.h"

namespace gq::report {
namespace {

using base::StrAppend;
using base::StrCat;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostRows = 2000;

// A table whose first row is the heading; columns from `first_number` on are numbers.
std::string TableHtml(std::string_view caption, const Rows& rows, size_t first_number = 99) {
  std::string text =
      StrCat("<div class=\"scroll\"><table aria-label=\"", EscapeHtml(caption), "\">\n<thead><tr>");
  const auto css = [first_number](size_t column) {
    return column >= first_number ? " class=\"n\"" : "";
  };
  for (size_t i = 0; i < rows[0].size(); ++i) {
    StrAppend(&text, "<th scope=\"col\"", css(i), ">", EscapeHtml(rows[0][i]), "</th>");
  }
  text += "</tr></thead>\n<tbody>\n";
  for (size_t row = 1; row < std::min(rows.size(), kMostRows + 1); ++row) {
    text += "<tr>";
    for (size_t i = 0; i < rows[row].size(); ++i) {
      StrAppend(&text, "<td", css(i), ">", EscapeHtml(rows[row][i]), "</td>");
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  if (rows.size() > kMostRows + 1) {
    StrAppend(&text, "<p class=\"note\">The first ", kMostRows, " of ", rows.size() - 1,
              " rows; all are in report.json.</p>\n");
  }
  return text;
}

std::string Details(std::string_view summary, std::string_view body) {
  return StrCat("<details><summary>", EscapeHtml(summary), "</summary>\n", body, "</details>\n");
}

std::string FactTable(std::string_view caption, const std::vector<Fact>& facts) {
  std::string text =
      StrCat("<div class=\"scroll\"><table aria-label=\"", EscapeHtml(caption), "\"><tbody>\n");
  for (const Fact& fact : facts) {
    StrAppend(&text, "<tr><th scope=\"row\">", EscapeHtml(fact.name), "</th><td>",
              EscapeHtml(fact.value), "</td></tr>\n");
  }
  return text + "</tbody></table></div>\n";
}

std::string Title(const Json& report) {
  for (const char* key : {"name", "model", "id"}) {
    if (std::string text = TextAt(report, {"job", key}); !text.empty()) return text;
  }
  return "gq report";
}

std::string HeaderHtml(const Json& report) {
  const VerdictWords verdict = VerdictOf(report);
  const std::string state = TextAt(report, {"job", "state"});
  std::string css;
  std::string headline = verdict.result;
  if (verdict.result == "goal met") css = "met";
  if (verdict.result == "goal not met") css = "missed";
  if (state == "FAILED") {
    css = "missed";
    headline = "job failed";
  } else if (headline.empty()) {
    headline = state.empty() ? "no verdict" : StrCat("no verdict; job ", state);
  }
  std::string text = StrCat("<header class=\"", css, "\">\n<h1>", EscapeHtml(Title(report)),
                            "</h1>\n<p class=\"verdict\">", EscapeHtml(headline),
                            verdict.default_goal ? " <small>(default goal)</small>" : "", "</p>\n");
  if (state == "FAILED") {
    StrAppend(&text, "<p>", EscapeHtml(TextAt(report, {"job", "failure", "message"})), " (",
              EscapeHtml(TextAt(report, {"job", "failure", "reason"})), ")</p>\n<p>",
              EscapeHtml(TextAt(report, {"job", "failure", "hint"})), "</p>\n");
  }
  if (!verdict.reason.empty()) StrAppend(&text, "<p>", EscapeHtml(verdict.reason), "</p>\n");
  if (!verdict.goals.empty()) {
    text += "<ul>\n";
    for (const Fact& goal : verdict.goals) {
      StrAppend(&text, "<li><code>", EscapeHtml(goal.name), "</code> ", EscapeHtml(goal.value),
                "</li>\n");
    }
    text += "</ul>\n";
  }
  if (!verdict.default_result.empty()) {
    StrAppend(&text, "<p class=\"note\">Default goal: ", EscapeHtml(verdict.default_result),
              "</p>\n");
  }
  if (const std::string note = TextAt(report, {"job", "note"}); !note.empty()) {
    StrAppend(&text, "<p class=\"note\">", EscapeHtml(note), "</p>\n");
  }
  return text + "</header>\n";
}

std::string ResultSection(const Json& report) {
  std::string body = FactTable("Result", FactsOf(report));
  const Json& strategy = ArrayAt(report, {"graph_quantize", "strategy"});
  if (!strategy.empty()) {
    body += "<h3>Strategy</h3>\n<ul>\n";
    for (const Json& sentence : strategy) {
      if (!sentence.is_string()) continue;
      StrAppend(&body, "<li>", EscapeHtml(sentence.get<std::string>()), "</li>\n");
    }
    body += "</ul>\n";
  }
  if (const Rows rows = OutputRows(report); !rows.empty()) {
    body += "<h3>Accuracy by output</h3>\n" + TableHtml("Accuracy by output", rows, 1);
  }
  return Section("Result", body);
}

std::string WarningSection(const Json& report) {
  const std::vector<WarningText> warnings = WarningsOf(report);
  if (warnings.empty()) return Section("Warnings", "<p>None.</p>\n");
  std::string body = "<ul>\n";
  for (const WarningText& warning : warnings) {
    StrAppend(&body, "<li class=\"warning\">", EscapeHtml(warning.step), ": ",
              EscapeHtml(warning.text), "</li>\n");
  }
  return Section(StrCat("Warnings (", CountOf(warnings), ")"), body + "</ul>\n");
}

std::string PartitionSection(const Json& report) {
  const Json& compile = At(report, {"compile"});
  if (!compile.is_object()) {
    return Section("Partitions", Absent("this job has no result of Compile"));
  }
  std::string body;
  if (TrueAt(compile, {"simulated"})) {
    body += "<p class=\"simulated\">Simulated: no compiler of the vendor was run.</p>\n";
  }
  std::vector<Fact> facts;
  const auto add = [&facts](std::string name, std::string value) {
    if (!value.empty() && value != "-") facts.push_back({std::move(name), std::move(value)});
  };
  add("Device", TextAt(compile, {"device"}));
  add("Backend", TextAt(compile, {"backend"}));
  add("Class", TextAt(compile, {"class"}));
  add("Partitions on the NPU", FormatNumber(NumberAt(compile, {"partitions", "npu"}), 0));
  add("Partitions on the CPU", FormatNumber(NumberAt(compile, {"partitions", "cpu"}), 0));
  add("Operators offloaded, %", FormatGeneral(NumberAt(compile, {"offload", "operators_percent"})));
  add("GOPs offloaded, %", FormatGeneral(NumberAt(compile, {"offload", "gops_percent"})));
  body += FactTable("Partitions", facts);
  Rows rows = {{"why on the CPU", "operators", "layers", "message", "remedy"}};
  const auto list = [](const Json& value) {
    std::vector<std::string> parts;
    if (value.is_string()) return value.get<std::string>();
    for (const Json& element : value.is_array() ? value : Json::array()) {
      if (element.is_string()) parts.push_back(element.get<std::string>());
    }
    return base::StrJoin(parts, ", ");
  };
  for (const Json& because : ArrayAt(compile, {"cpu_because"})) {
    rows.push_back({TextAt(because, {"class"}), list(At(because, {"operators"})),
                    list(At(because, {"layers"})), TextAt(because, {"message"}),
                    TextAt(because, {"remedy"})});
  }
  if (rows.size() > 1) body += TableHtml("Reasons for the CPU", rows);
  return Section("Partitions", body);
}

std::string StepSection(const Json& report) {
  Rows rows = {{"step", "state", "tries", "time"}};
  for (const Json& step : ArrayAt(report, {"steps"})) {
    const std::string not_run = TextAt(step, {"not_run"});
    rows.push_back({TextAt(step, {"title"}),
                    not_run.empty() ? TextAt(step, {"state"}) : StrCat("not run: ", not_run),
                    FormatNumber(NumberAt(step, {"attempts"}), 0),
                    FormatSeconds(NumberAt(step, {"seconds"}))});
  }
  return Section("Steps", TableHtml("Steps", rows, 2));
}

// Rows that are only of interest when one looks for them.
std::string DetailSection(const Json& report) {
  std::string body;
  Rows layers = {{"node", "operator", "precision", "bits", "reason"}};
  for (const Json& layer : ArrayAt(report, {"graph_quantize", "layers"})) {
    layers.push_back({TextAt(layer, {"node"}), TextAt(layer, {"op"}), TextAt(layer, {"precision"}),
                      BitsText(layer), TextAt(layer, {"reason"})});
  }
  if (layers.size() > 1) {
    body += Details(StrCat("Layers (", layers.size() - 1, ")"), TableHtml("Layers", layers));
  }
  Rows tensors = {{"tensor", "class", "operator", "type", "position", "scale", "zero point"}};
  const auto first = [](const Json& value) {
    if (value.is_number()) return FormatGeneral(value.get<double>());
    if (!value.is_array() || value.empty() || !value[0].is_number()) return std::string("-");
    std::string text = FormatGeneral(value[0].get<double>());
    if (value.size() > 1) StrAppend(&text, " ... (", value.size(), " channels)");
    return text;
  };
  for (const Json& tensor : ArrayAt(report, {"graph_quantize", "tensors"})) {
    tensors.push_back({TextAt(tensor, {"name"}), TextAt(tensor, {"class"}), TextAt(tensor, {"op"}),
                       TextAt(tensor, {"dtype"}), FormatNumber(NumberAt(tensor, {"pos"}), 0),
                       first(At(tensor, {"scale"})), first(At(tensor, {"zero_point"}))});
  }
  if (tensors.size() > 1) {
    body += Details(StrCat("Parameters by tensor (", tensors.size() - 1, ")"),
                    TableHtml("Parameters by tensor", tensors, 4));
  }
  Rows passes = {{"pass", "changes", "detail"}};
  for (const char* step : {"graph_optimize", "graph_quantize"}) {
    for (const Json& pass : ArrayAt(report, {step, "passes"})) {
      passes.push_back({TextAt(pass, {"name"}), FormatNumber(NumberAt(pass, {"changed"}), 0),
                        TextAt(pass, {"detail"})});
    }
  }
  if (passes.size() > 1) {
    body += Details(StrCat("Passes (", passes.size() - 1, ")"), TableHtml("Passes", passes));
  }
  Rows alignment = {{"alignment rule", "node", "before", "after"}};
  const auto plain = [](const Json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  for (const Json& change : ArrayAt(report, {"graph_quantize", "alignment"})) {
    alignment.push_back({TextAt(change, {"rule"}), TextAt(change, {"node"}),
                         plain(At(change, {"before"})), plain(At(change, {"after"}))});
  }
  if (alignment.size() > 1) {
    body += Details(StrCat("Alignment (", alignment.size() - 1, ")"),
                    TableHtml("Alignment", alignment));
  }
  std::vector<Fact> identity;
  const Json& facts = At(report, {"identity"});
  if (facts.is_object()) {
    for (const auto& [key, value] : facts.items()) {
      identity.push_back({key, plain(value)});
    }
  }
  body += Details("Identity", FactTable("Identity", identity));
  return Section("Details", body);
}

}  // namespace

std::string ReportHtml(std::string_view report_json) {
  const Json report = ParseReport(report_json);
  return StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'\">\n<title>",
      EscapeHtml(Title(report)), "</title>\n<style>", kReportStyle, "</style>\n</head>\n<body>\n",
      HeaderHtml(report), "<main>\n", ResultSection(report), WarningSection(report),
      PrecisionMapSection(report), LayerErrorSection(report), ScatterSection(report),
      ExplorationSection(report), TensorHistogramSection(report), PartitionSection(report),
      LatencySection(report), StepSection(report), DetailSection(report),
      "</main>\n<footer><p class=\"note\">gq ",
      EscapeHtml(TextAt(report, {"identity", "gq_version"})), ", job ",
      EscapeHtml(TextAt(report, {"job", "id"})), "</p></footer>\n</body>\n</html>\n");
}

}  // namespace gq::report
