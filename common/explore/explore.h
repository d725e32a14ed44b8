// The search for the smallest set of higher-precision layers (spec/engine.md 10).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/accuracy/evaluate.h"
#include "common/base/reporter.h"
#include "common/explore/candidate.h"
#include "common/explore/journal.h"
#include "nlohmann/json.hpp"

namespace gq::explore {

enum class StrategyKind {
  kGreedy,       // the documented search: one layer at a time by dynamic range
  kSensitivity,  // regions by measured damage
};

// One row of the search, new or from a run before.
struct TraceRow {
  int number = 0;
  std::string kind;
  std::string candidate;
  std::string decision;
  int layers = 0;  // promoted compute layers
  Figures figures;
  double seconds = 0, cpu_seconds = 0;
  bool full = false;  // measured on all evaluation samples
};

// A model of the Pareto set: no other one measured has both fewer promoted layers and better
// figures.
struct ParetoPoint {
  int number = 0;  // of its row
  int layers = 0;
  Figures figures;
  Candidate candidate;
};

struct Exploration {
  Candidate best;
  // Of the best, on all samples; nothing when it is the start and its figures were given.
  std::optional<accuracy::Evaluation> evaluation;
  Figures figures;
  int best_row = 0;
  int promoted = 0;        // compute layers of the best
  int compute_layers = 0;  // of the model
  int borders = 0;         // tensors between int8 and higher precision
  std::vector<std::string> promoted_layers;

  // The set that the strategy itself ended with, before it was compared with other candidates.
  int searched_row = 0;

  std::vector<TraceRow> trace;
  std::vector<ParetoPoint> pareto;  // by layers, ascending
  std::string stop;                 // why the search ended
  std::string limited_by;           // what keeps the goal out of reach; empty when it is met
  int full_evaluations = 0;
  int64_t sample_runs = 0;  // inferences of candidates
  int64_t search_runs = 0;  // of them in the switchable model
  int64_t evaluation_samples = 0;
  std::map<std::string, double> seconds;  // phase -> seconds
};

// Searches and returns the best model found, whether or not the goal is met. Every candidate is in
// `journal` before the next is tried; `earlier` holds the records of a run that was broken off,
// which goes on after its last one. A candidate that fails is recorded and skipped. Log: component
// "Explore", one line a candidate. Errors: CANCELLED, those of Quantize for the first candidate, of
// DataSet and of the journal. Blocks.
absl::StatusOr<Exploration> Explore(const Problem& problem, StrategyKind strategy,
                                    const std::vector<IterationRecord>& earlier, Journal& journal,
                                    base::Reporter& reporter);

// Fragment "explore" of the report (docs/report.md).
nlohmann::json ExplorationJson(const Exploration& exploration, const Problem& problem,
                               StrategyKind strategy);

}  // namespace gq::explore
