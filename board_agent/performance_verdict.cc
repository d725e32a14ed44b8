#include "board_agent/performance_verdict.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace gq::agent {

void JudgeTargets(const rpc::StepContext& context, const std::set<job::MeasuredBy>& steps,
                  gq::v1::StepResult& result) {
  using Json = nlohmann::ordered_json;
  std::vector<Json> parts;
  for (const std::string& text : context.lease.earlier_reports()) {
    parts.push_back(Json::parse(text, nullptr, false));
  }
  Json own = Json::parse(result.report_json(), nullptr, false);
  parts.push_back(own);
  const job::PerformanceFigures figures = job::FiguresOf(parts);
  std::vector<job::PerformanceResult> results;
  for (const job::MeasuredBy step : steps) {
    for (job::PerformanceResult& judged :
         job::JudgePerformance(context.lease.spec(), step, figures)) {
      context.reporter.Log(judged.met ? base::LogLevel::kInfo : base::LogLevel::kWarn, "Goal",
                           job::DescribeResult(judged));
      if (!judged.met) result.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
      results.push_back(std::move(judged));
    }
  }
  if (results.empty() || !own.is_object()) return;
  own["performance_targets"] = job::PerformanceJson(results);
  result.set_report_json(own.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace gq::agent
