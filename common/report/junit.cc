#include <string>
#include <string_view>

#include "common/base/text.h"
#include "common/report/escape.h"
#include "common/report/figures.h"
#include "common/report/json_view.h"
#include "common/report/summary.h"

namespace gq::report {
namespace {

using base::StrAppend;
using base::StrCat;

struct Cases {
  std::string text;
  int tests = 0;
  int failures = 0;
  int skipped = 0;
};

void AddCase(Cases& cases, std::string_view name, std::string_view group, double seconds,
             std::string_view body) {
  ++cases.tests;
  StrAppend(&cases.text, "  <testcase name=\"", EscapeHtml(name), "\" classname=\"", group,
            "\" time=\"", FormatNumber(seconds, 3), "\"");
  StrAppend(&cases.text, body.empty() ? "/>\n" : StrCat(">", body, "</testcase>\n"));
}

void AddStep(Cases& cases, const Json& step) {
  const std::string state = TextAt(step, {"state"});
  std::string body;
  if (state == "FAILED" || state == "CANCELLED") {
    ++cases.failures;
    body = StrCat("<failure type=\"", EscapeHtml(TextAt(step, {"failure", "reason"})),
                  "\" message=\"", EscapeHtml(TextAt(step, {"failure", "message"})), "\"/>");
  } else if (state != "SUCCEEDED") {
    ++cases.skipped;
    body = StrCat("<skipped message=\"", EscapeHtml(TextAt(step, {"not_run"})), "\"/>");
  }
  AddCase(cases, TextAt(step, {"title"}), "gq.step", NumberAt(step, {"seconds"}).value_or(0), body);
}

void AddGoals(Cases& cases, const Json& report) {
  for (const Json* goal : PerformanceGoals(report)) {
    std::string body;
    if (goal->contains("judged") && !TrueAt(*goal, {"judged"})) {
      ++cases.skipped;
      body = StrCat("<skipped message=\"", EscapeHtml(TextAt(*goal, {"reason"})), "\"/>");
    } else if (!TrueAt(*goal, {"met"})) {
      ++cases.failures;
      const auto value = NumberAt(*goal, {"value"});
      body = StrCat("<failure type=\"GOAL_NOT_MET\" message=\"",
                    value ? StrCat("measured ", FormatGeneral(value)) : "not measured", "\"/>");
    }
    AddCase(cases, TextAt(*goal, {"expression"}), "gq.goal", 0, body);
  }
  const Json& verdict = At(report, {"evaluate", "verdict"});
  if (!verdict.is_object()) return;
  for (const Json& goal : ArrayAt(report, {"evaluate", "verdict", "goals"})) {
    std::string body;
    if (!TrueAt(goal, {"met"})) {
      ++cases.failures;
      body = StrCat("<failure type=\"GOAL_NOT_MET\" message=\"measured ",
                    EscapeHtml(FormatGeneral(NumberAt(goal, {"value"}))), " on output '",
                    EscapeHtml(TextAt(goal, {"output"})), "'\"/>");
    }
    AddCase(cases, TextAt(goal, {"expression"}), "gq.goal", 0, body);
  }
  if (!ArrayAt(verdict, {"goals"}).empty()) return;
  const std::string result = TextAt(verdict, {"result"});
  const std::string reason = EscapeHtml(TextAt(verdict, {"reason"}));
  std::string body;
  if (result == "goal_not_met") {
    ++cases.failures;
    body = StrCat("<failure type=\"GOAL_NOT_MET\" message=\"", reason, "\"/>");
  } else if (result == "not_judged") {
    ++cases.skipped;
    body = StrCat("<skipped message=\"", reason, "\"/>");
  }
  AddCase(cases, "default goal", "gq.goal", 0, body);
}

}  // namespace

std::string JUnitXml(std::string_view report_json) {
  const Json report = ParseReport(report_json);
  Cases cases;
  for (const Json& step : ArrayAt(report, {"steps"})) AddStep(cases, step);
  AddGoals(cases, report);
  return StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"gq ",
                EscapeHtml(TextAt(report, {"job", "id"})), "\" tests=\"", cases.tests,
                "\" failures=\"", cases.failures, "\" skipped=\"", cases.skipped, "\" time=\"",
                FormatNumber(NumberAt(report, {"job", "seconds"}).value_or(0), 3), "\">\n",
                cases.text, "</testsuite>\n");
}

}  // namespace gq::report
