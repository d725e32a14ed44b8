// What both strategies share: the rows of a search, its clock and its candidates.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/explore/explore.h"

namespace gq::explore {

// One search while it runs. A candidate that an earlier run recorded is not made again: its figures
// are taken from its record.
class Run {
 public:
  Run(const Problem& problem, CandidateMaker& maker, const std::vector<IterationRecord>& earlier,
      Journal& journal, base::Reporter& reporter);

  // Makes a candidate; called until the run ends, so it refers to nothing of a strategy.
  using Make = std::function<absl::StatusOr<Candidate>()>;
  struct Tried {
    Figures figures;
    bool failed = false;
    double seconds = 0, cpu_seconds = 0;
    bool known = false;  // from an earlier run
    std::string config_json;
    std::optional<accuracy::Evaluation> evaluation;  // nothing when it is known or failed
    Make make;
  };

  // Makes a candidate and measures it on the samples of `only`, or all. Errors of the candidate are
  // in the result, but for CANCELLED.
  absl::StatusOr<Tried> Try(std::string_view kind, std::string_view candidate,
                            const std::vector<int64_t>& only, Make make);
  // The start of the problem, with the figures that are known of it where they are.
  absl::StatusOr<Tried> TryStart(const std::vector<int64_t>& only);

  // Records what became of it, unless an earlier run has, and adds it to the trace and the log.
  // `nodes` are those in higher precision, `layers` how many compute layers are among them. `extra`
  // is kept in the state of the record.
  absl::Status Decide(std::string_view kind, std::string_view candidate, std::string_view decision,
                      const Tried& tried, const std::vector<std::string>& nodes, int layers,
                      bool full, const nlohmann::json& extra = nlohmann::json::object());

  // A value that an earlier run left in the state of one of its records.
  std::optional<nlohmann::json> Remembered(std::string_view key) const;

  int rows() const { return static_cast<int>(trace_.size()); }
  const std::vector<TraceRow>& trace() const { return trace_; }
  const std::vector<std::string>& NodesOfRow(int number) const {
    return nodes_[static_cast<size_t>(number - 1)];
  }
  // Makes the candidate of a row once more.
  absl::StatusOr<Candidate> Remake(int number) const {
    return makes_[static_cast<size_t>(number - 1)]();
  }
  // Figures of a row in full, where this run measured it.
  const std::optional<accuracy::Evaluation>& EvaluationOfRow(int number) const {
    return evaluations_[static_cast<size_t>(number - 1)];
  }
  bool OutOfTime() const;
  absl::Status CheckCancelled() const;
  base::Reporter& reporter() const { return reporter_; }

 private:
  const IterationRecord* Find(std::string_view kind, std::string_view candidate) const;
  void LogRow(const TraceRow& row);

  const Problem& problem_;
  CandidateMaker& maker_;
  const std::vector<IterationRecord>& earlier_;
  Journal& journal_;
  base::Reporter& reporter_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<TraceRow> trace_;
  std::vector<std::vector<std::string>> nodes_;  // by row
  std::vector<Make> makes_;
  std::vector<std::optional<accuracy::Evaluation>> evaluations_;
  int compute_layers_;
};

// Makes the candidate once and keeps it; for those that are dear.
Run::Make Once(Run::Make make);

// What a strategy hands to the end of the search.
struct StrategyResult {
  std::string stop;
  int searched_row = 0;
};

absl::StatusOr<StrategyResult> RunGreedy(const Problem& problem, CandidateMaker& maker, Run& run);
absl::StatusOr<StrategyResult> RunSensitivity(const Problem& problem, CandidateMaker& maker,
                                              Run& run, Exploration* exploration);

// How many compute layers of the model are among `nodes`.
int CountLayers(const Problem& problem, const std::vector<std::string>& nodes);

// Names of nodes of float_model that stay quantized in the start although limits.keep names them,
// and those that limits.forbid names. PATTERN_UNMATCHED, PATTERN_INVALID.
absl::StatusOr<std::vector<std::string>> NodesOfPatterns(const Problem& problem,
                                                         const std::vector<std::string>& patterns);

// Compute layers that the start has in int8, in graph order.
std::vector<std::string> QuantizedLayers(const Problem& problem, const CandidateMaker& maker);

}  // namespace gq::explore
