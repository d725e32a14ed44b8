#include "common/explore/explore.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/regions.h"
#include "common/explore/run.h"
#include "common/graph/analysis.h"

namespace gq::explore {
namespace {

using base::StrCat;
using Clock = std::chrono::steady_clock;

constexpr double kSameDecibels = 0.01;  // what reported figures may differ by when repeated

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The row that is returned: one that meets the goal with the fewest promoted layers, else the best
// figures.
int BestRow(const std::vector<TraceRow>& trace) {
  const TraceRow* best = nullptr;
  for (const TraceRow& row : trace) {
    if (!row.full) continue;
    const bool better = best == nullptr || (row.figures.goal_met && best->figures.goal_met
                                                ? row.layers < best->layers
                                                : IsBetter(row.figures, best->figures));
    if (better) best = &row;
  }
  return best == nullptr ? 0 : best->number;
}

// Rows measured on all samples that no other such row beats in both respects.
std::vector<const TraceRow*> ParetoRows(const std::vector<TraceRow>& trace) {
  std::vector<const TraceRow*> rows;
  for (const TraceRow& row : trace) {
    if (!row.full) continue;
    const bool beaten = std::any_of(trace.begin(), trace.end(), [&](const TraceRow& other) {
      if (!other.full || &other == &row) return false;
      const bool no_worse = !IsBetter(row.figures, other.figures);
      const bool less = other.layers < row.layers;
      const bool better = IsBetter(other.figures, row.figures);
      const bool same = other.layers == row.layers && no_worse && !better;
      return (other.layers <= row.layers && no_worse && (less || better)) ||
             (same && other.number < row.number);
    });
    if (!beaten) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return a->layers < b->layers; });
  return rows;
}

// The documented search starts without recovery; what it found may gain by it.
absl::Status RecoverSearched(const Problem& problem, CandidateMaker& maker, Run& run,
                             const StrategyResult& searched) {
  GQ_ASSIGN_OR_RETURN(const auto start, run.TryStart({}));
  GQ_RETURN_IF_ERROR(run.Decide("preset", "start", "kept", start, {}, 0, true));
  const std::vector<std::string> nodes = run.NodesOfRow(searched.searched_row);
  if (nodes.empty() || run.OutOfTime()) return absl::OkStatus();
  const std::string name = "the promoted layers, with recovery";
  GQ_ASSIGN_OR_RETURN(
      const auto tried,
      run.Try("recovery", name, {}, Once([&maker, nodes] { return maker.Recovered(nodes); })));
  const Figures& before = run.trace()[static_cast<size_t>(searched.searched_row - 1)].figures;
  const bool better = !tried.failed && IsBetter(tried.figures, before) &&
                      (start.failed || IsBetter(tried.figures, start.figures));
  return run.Decide("recovery", name, better ? "kept" : "rolled-back", tried, nodes,
                    CountLayers(problem, nodes), true);
}

// What is reported of the best model comes from its file. The figures are those of the search
// unless the runtime computes a shorter graph otherwise.
absl::Status MeasureFile(const Problem& problem, CandidateMaker& maker, base::Reporter& reporter,
                         Exploration* e) {
  GQ_ASSIGN_OR_RETURN(e->evaluation, maker.EvaluateFile(e->best.model));
  const Figures measured = FiguresOf(*e->evaluation, problem.evaluate.targets);
  const double difference = std::fabs(measured.measure.psnr_db - e->figures.measure.psnr_db);
  if (difference > kSameDecibels || measured.goal_met != e->figures.goal_met) {
    reporter.Warn("Explore", StrCat("the search measured ", e->figures.measure.psnr_db,
                                    " dB of the best model, its file gives ",
                                    measured.measure.psnr_db, " dB, which counts"));
  }
  e->figures = measured;
  return absl::OkStatus();
}

std::string LimitedBy(const Exploration& e, const Problem& problem) {
  if (e.figures.goal_met || !e.figures.judged) return "";
  std::string text = e.stop;
  if (e.promoted == 0 && e.trace.size() > 1) {
    base::StrAppend(&text, "; no promotion did better than the quantization as it was");
  }
  base::StrAppend(&text, "; raise max_share (now ", problem.limits.max_share,
                  "), or accept a looser goal");
  return text;
}

}  // namespace

absl::StatusOr<Exploration> Explore(const Problem& problem, StrategyKind strategy,
                                    const std::vector<IterationRecord>& earlier, Journal& journal,
                                    base::Reporter& reporter) {
  const auto begin = Clock::now();
  Exploration e;
  e.compute_layers = static_cast<int>(graph::ComputeLayers(problem.float_model.graph()).size());
  e.evaluation_samples = problem.evaluation.size();
  GQ_ASSIGN_OR_RETURN(const auto maker, CandidateMaker::Create(problem, reporter));
  Run run(problem, *maker, earlier, journal, reporter);
  if (!earlier.empty()) {
    reporter.Info("Explore", StrCat("going on after ", earlier.size(), " recorded candidates"));
  }
  StrategyResult searched;
  if (strategy == StrategyKind::kGreedy) {
    GQ_ASSIGN_OR_RETURN(searched, RunGreedy(problem, *maker, run));
  } else {
    GQ_ASSIGN_OR_RETURN(searched, RunSensitivity(problem, *maker, run, &e));
  }
  e.seconds["search"] = SecondsSince(begin);
  e.full_evaluations = maker->full_evaluations();
  e.sample_runs = maker->sample_runs() + e.search_runs;
  e.stop = searched.stop;
  e.searched_row = searched.searched_row;
  const auto after_search = Clock::now();
  if (strategy == StrategyKind::kGreedy && !problem.recover.passes.empty()) {
    GQ_RETURN_IF_ERROR(RecoverSearched(problem, *maker, run, searched));
  }
  e.seconds["recovery"] = SecondsSince(after_search);

  const auto before_end = Clock::now();
  e.trace = run.trace();
  e.best_row = BestRow(e.trace);
  if (e.best_row == 0) {
    return base::MakeError(base::Reason::kSanityCheckFailed,
                           "no candidate of the exploration could be measured",
                           "see the warnings above");
  }
  const TraceRow& best = e.trace[static_cast<size_t>(e.best_row - 1)];
  GQ_ASSIGN_OR_RETURN(e.best, run.Remake(e.best_row));
  e.figures = best.figures;
  e.promoted = best.layers;
  const bool known = best.candidate == "start" && problem.start_figures.has_value();
  e.evaluation = run.EvaluationOfRow(e.best_row);
  if (!known && (!e.evaluation || maker->reuses_runs())) {
    GQ_RETURN_IF_ERROR(MeasureFile(problem, *maker, reporter, &e));
  }
  e.borders = CountBorders(problem.float_model.graph(), e.best.nodes);
  const std::set<std::string> nodes(e.best.nodes.begin(), e.best.nodes.end());
  for (const std::string& layer : graph::ComputeLayers(problem.float_model.graph())) {
    if (nodes.contains(layer)) e.promoted_layers.push_back(layer);
  }
  for (const TraceRow* row : ParetoRows(e.trace)) {
    ParetoPoint point{.number = row->number, .layers = row->layers, .figures = row->figures};
    if (row->number == e.best_row) {
      point.candidate = e.best;
    } else {
      GQ_ASSIGN_OR_RETURN(point.candidate, run.Remake(row->number));
    }
    e.pareto.push_back(std::move(point));
  }
  e.limited_by = LimitedBy(e, problem);
  e.seconds["result"] = SecondsSince(before_end);
  e.seconds["total"] = SecondsSince(begin);
  return e;
}

nlohmann::json ExplorationJson(const Exploration& e, const Problem& problem,
                               StrategyKind strategy) {
  using nlohmann::json;
  const auto share = [&e](int layers) {
    return e.compute_layers == 0 ? 0.0 : static_cast<double>(layers) / e.compute_layers;
  };
  const bool classes = std::any_of(e.trace.begin(), e.trace.end(), [](const TraceRow& row) {
    return row.figures.top1 >= 0 && row.figures.primary == row.figures.top1;
  });
  json trace = json::array();
  for (const TraceRow& row : e.trace) {
    json entry = {{"number", row.number},       {"kind", row.kind},
                  {"candidate", row.candidate}, {"decision", row.decision},
                  {"layers", row.layers},       {"share", share(row.layers)},
                  {"seconds", row.seconds},     {"cpu_seconds", row.cpu_seconds},
                  {"all_samples", row.full}};
    if (row.decision != "failed") {
      entry["figures"] = row.figures.ToJson();
      // The curve shows what was measured alike.
      if (row.full) {
        entry["value"] =
            accuracy::JsonNumber(classes ? row.figures.top1 : row.figures.measure.psnr_db);
      }
    }
    trace.push_back(std::move(entry));
  }
  json pareto = json::array();
  for (const ParetoPoint& point : e.pareto) {
    char folder[32];
    std::snprintf(folder, sizeof folder, "iterations/%02d", point.number);
    pareto.push_back({{"number", point.number},
                      {"layers", point.layers},
                      {"share", share(point.layers)},
                      {"figures", point.figures.ToJson()},
                      {"folder", folder}});
  }
  json result = {{"strategy", strategy == StrategyKind::kGreedy ? "greedy" : "sensitivity"},
                 {"precision", PrecisionText(problem.limits.precision)},
                 {"metric", classes ? "top-1 agreement, %" : "PSNR of the worst output, dB"},
                 {"compute_layers", e.compute_layers},
                 {"limits",
                  {{"max_share", problem.limits.max_share},
                   {"most_layers", problem.limits.MostPromotions(e.compute_layers)},
                   {"max_iterations", problem.limits.MostIterations(e.compute_layers)},
                   {"min_gain_db", problem.limits.min_gain_db},
                   {"patience", problem.limits.patience},
                   {"pass_rate", problem.limits.pass_rate},
                   {"time_budget", problem.limits.time_budget}}},
                 {"best",
                  {{"number", e.best_row},
                   {"layers", e.promoted},
                   {"share", share(e.promoted)},
                   {"borders", e.borders},
                   {"promoted", e.promoted_layers},
                   {"nodes", e.best.nodes},
                   {"figures", e.figures.ToJson()}}},
                 {"searched", e.searched_row},
                 {"stop", e.stop},
                 {"trace", std::move(trace)},
                 {"pareto", std::move(pareto)},
                 {"full_evaluations", e.full_evaluations},
                 {"sample_runs", e.sample_runs},
                 {"evaluation_samples", e.evaluation_samples},
                 {"seconds", e.seconds}};
  if (!e.limited_by.empty()) result["limited_by"] = e.limited_by;
  return result;
}

}  // namespace gq::explore
