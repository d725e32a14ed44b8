#include "board_agent/performance_verdict.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace gq::agent {

void JudgeTargets(const rpc::StepContext& context, const std::set<job::MeasuredBy>& steps,
                  gq::v1::StepResult& result) {
  using Json = nlohmann::ordered_json;
  std::vector<Json> earlier;
  for (const std::string& text : context.lease.earlier_reports()) {
    earlier.push_back(Json::parse(text, nullptr, false));
  }
  Json own = Json::parse(result.report_json(), nullptr, false);
  if (!job::JudgeTargets(context.lease.spec(), earlier, steps, context.reporter, own)) {
    result.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  }
  if (!own.is_object()) return;
  result.set_report_json(own.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace gq::agent
