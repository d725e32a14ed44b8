#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/calibrate/calibrate.h"
#include "common/explore/run.h"
#include "common/explore/stopping_rule.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::explore {
namespace {

// Compute layers, the one with the largest mean of max|activation| over the calibration samples
// first; equal ones in graph order.
absl::StatusOr<std::vector<std::string>> RankByDynamicRange(const Problem& problem,
                                                            const std::vector<std::string>& layers,
                                                            base::Reporter& reporter) {
  const graph::GraphIndex index(problem.float_model.graph());
  std::vector<calibrate::TensorRequest> requests;
  requests.reserve(layers.size());
  for (const std::string& layer : layers) {
    requests.push_back({.name = index.FindNode(layer)->output(0)});
  }
  const calibrate::MethodSpec method;
  calibrate::CalibrateOptions options;
  options.allow_nonfinite = problem.allow_nonfinite;
  GQ_ASSIGN_OR_RETURN(const calibrate::CalibrationTable table,
                      calibrate::Calibrate(problem.float_model, requests, std::span(&method, 1),
                                           problem.calibration, options, reporter));
  std::map<std::string, double> ranges;
  for (const std::string& layer : layers) {
    const auto* tensor = table.Find(index.FindNode(layer)->output(0));
    ranges[layer] = tensor == nullptr ? 0 : tensor->mean_abs_max;
  }
  std::vector<std::string> ranked = layers;
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const auto& a, const auto& b) { return ranges.at(a) > ranges.at(b); });
  return ranked;
}

}  // namespace

absl::StatusOr<StrategyResult> RunGreedy(const Problem& problem, CandidateMaker& maker, Run& run) {
  const Limits& limits = problem.limits;
  const auto all = static_cast<int>(graph::ComputeLayers(problem.float_model.graph()).size());
  GQ_ASSIGN_OR_RETURN(std::vector<std::string> promoted, NodesOfPatterns(problem, limits.keep));
  GQ_ASSIGN_OR_RETURN(std::vector<std::string> forbidden, NodesOfPatterns(problem, limits.forbid));
  std::vector<std::string> layers = QuantizedLayers(problem, maker);
  std::erase_if(layers, [&](const std::string& layer) {
    return std::find(forbidden.begin(), forbidden.end(), layer) != forbidden.end() ||
           std::find(promoted.begin(), promoted.end(), layer) != promoted.end();
  });
  GQ_ASSIGN_OR_RETURN(const std::vector<std::string> ranked,
                      RankByDynamicRange(problem, layers, run.reporter()));

  const auto plain = [&maker](std::vector<std::string> nodes) -> Run::Make {
    return [&maker, nodes = std::move(nodes)] { return maker.Plain(nodes); };
  };
  const std::string start_name =
      promoted.empty() ? "without recovery" : "without recovery, kept layers promoted";
  maker.ReuseRuns();
  const bool plain_is_start = problem.recover.passes.empty() && promoted.empty();
  const char* first = plain_is_start ? "start" : start_name.c_str();
  GQ_ASSIGN_OR_RETURN(Run::Tried start, plain_is_start
                                            ? run.TryStart({})
                                            : run.Try("preset", start_name, {}, plain(promoted)));
  GQ_RETURN_IF_ERROR(
      run.Decide("preset", first, "kept", start, promoted, CountLayers(problem, promoted), true));
  maker.BuildOnLast(true);
  StrategyResult result{.searched_row = run.rows()};
  if (start.failed) {
    result.stop = "the model without promotions could not be measured";
    return result;
  }

  StoppingRule rule(limits, all, start.figures.measure, start.figures.goal_met);
  for (const std::string& layer : ranked) {
    if (rule.stop()) break;
    if (run.OutOfTime()) {
      result.stop = StopText(StopReason::kTimeBudget, limits);
      return result;
    }
    std::vector<std::string> nodes = promoted;
    nodes.push_back(layer);
    GQ_ASSIGN_OR_RETURN(const Run::Tried tried, run.Try("greedy", layer, {}, plain(nodes)));
    const Decision decision =
        tried.failed ? Decision::kSkipped : rule.Try(tried.figures.measure, tried.figures.goal_met);
    const int count = CountLayers(problem, nodes);
    GQ_RETURN_IF_ERROR(
        run.Decide("greedy", layer, DecisionName(decision), tried, nodes, count, true));
    maker.BuildOnLast(decision == Decision::kPromoted);
    if (decision != Decision::kPromoted) continue;
    promoted = std::move(nodes);
    result.searched_row = run.rows();
  }
  result.stop = StopText(rule.stop().value_or(StopReason::kNoLayersLeft), limits);
  return result;
}

}  // namespace gq::explore
