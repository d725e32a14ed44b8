// Candidates of a search: emitted models with some nodes in higher precision, and their figures.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/accuracy/evaluate.h"
#include "common/base/reporter.h"
#include "common/explore/incremental_runs.h"
#include "common/explore/limits.h"
#include "common/explore/stopping_rule.h"
#include "common/graph/model.h"
#include "common/quantize/quantize.h"
#include "common/quantize/recover/recover.h"
#include "nlohmann/json.hpp"

namespace gq::explore {

// Figures of a candidate in short.
struct Figures {
  Measure measure;    // pass rate and PSNR, each of the worst float output
  double snr_db = 0;  // of the worst float output
  double top1 = -1;   // least agreement of the largest class, percent; -1 without classes
  bool goal_met = false;
  bool judged = true;
  int64_t samples = 0;
  // What two candidates that miss the goal are compared by first; larger is better. The first
  // target accuracy that was asked for, else the agreement of classes or the pass rate.
  double primary = 0;

  nlohmann::json ToJson() const;
  static std::optional<Figures> FromJson(const nlohmann::json& json);
  std::map<std::string, double> Metrics() const;  // finite ones
};
Figures FiguresOf(const accuracy::Evaluation& evaluation,
                  const std::vector<accuracy::TargetExpression>& targets);
// Of a report's fragment `evaluate`; nothing when it has no figures.
std::optional<Figures> FiguresOfReport(const nlohmann::json& evaluate,
                                       const std::vector<accuracy::TargetExpression>& targets);

// True when `a` is the better model: the goal counts first, then the primary figure, then PSNR.
bool IsBetter(const Figures& a, const Figures& b);

// What is searched over. Everything must outlive the search.
struct Problem {
  const graph::Model& float_model;
  // The quantization that the search starts from, and its recovery passes.
  const quantize::QuantizeConfig& config;
  const quantize::RecoverOptions& recover;
  const quantize::ModelOrigin* origin;  // null: names are those of float_model
  // What `config` and `recover` made of float_model, with its report (graph_quantize).
  const graph::Model& start;
  // float_model and config as recovery left them: what the integers of the start stand for. The
  // same objects without recovery.
  const graph::Model& source;
  const quantize::QuantizeConfig& source_config;
  const nlohmann::json& start_report;
  runtime::DataSet& calibration;
  runtime::DataSet& evaluation;
  accuracy::EvaluateOptions evaluate;
  Limits limits;
  quantize::MixedForm form = quantize::MixedForm::kFloat;
  bool allow_nonfinite = false;
  int threads = 1;
  // What the start reaches on all evaluation samples, where that is known already.
  std::optional<Figures> start_figures;
};

struct Candidate {
  std::vector<std::string> nodes;  // of float_model, in higher precision
  quantize::QuantizeConfig config;
  graph::Model model;
  nlohmann::json report;  // graph_quantize
};

// Makes and measures candidates. The calibration is done once. Not thread-safe.
class CandidateMaker {
 public:
  static absl::StatusOr<std::unique_ptr<CandidateMaker>> Create(const Problem& problem,
                                                                base::Reporter& reporter);

  // Names of the user's model for nodes of float_model; those without one are left out.
  std::vector<std::string> UserNames(const std::vector<std::string>& nodes) const;
  bool CanName(const std::string& node) const { return !UserNames({node}).empty(); }

  // Without recovery.
  absl::StatusOr<Candidate> Plain(const std::vector<std::string>& nodes);
  // With the recovery passes of the problem, fitted anew.
  absl::StatusOr<Candidate> Recovered(const std::vector<std::string>& nodes);
  // Of the problem's source, with the integers, positions and biases that the start has.
  absl::StatusOr<Candidate> FromStart(const std::vector<std::string>& nodes);

  // On all evaluation samples, or on those of `only`. A model whose float tensors are bfloat16 or
  // float16 on the NPU is measured as its reference for the CPU (quantize/reduced_precision.h).
  absl::StatusOr<accuracy::Evaluation> Evaluate(const graph::Model& model,
                                                const std::vector<int64_t>& only = {});

  // From here on candidates that are measured on all samples start from what they share with the
  // one they build on (incremental_runs.h). BuildOnLast says of each whether later ones build on it
  // or on the one before.
  void ReuseRuns();
  void BuildOnLast(bool accepted);
  // True when the figures of this maker are not those of a session over the file itself; they are
  // the same as long as ONNX Runtime's kernels are.
  bool reuses_runs() const { return runs_ != nullptr; }
  // On all samples, in a session over the emitted file (or its reference); not counted.
  absl::StatusOr<accuracy::Evaluation> EvaluateFile(const graph::Model& model);

  int full_evaluations() const { return full_evaluations_; }
  int64_t sample_runs() const { return sample_runs_; }

 private:
  explicit CandidateMaker(const Problem& problem, base::Reporter& reporter,
                          accuracy::Baseline baseline)
      : problem_(problem), reporter_(reporter), baseline_(std::move(baseline)) {}
  quantize::Promotion PromotionOf(const std::vector<std::string>& nodes) const;
  absl::StatusOr<Candidate> Quantize(const std::vector<std::string>& nodes,
                                     const std::vector<std::string>& passes);
  absl::StatusOr<accuracy::Evaluation> EvaluateWith(IncrementalRuns* runs,
                                                    const graph::Model& model,
                                                    const std::vector<int64_t>& only);

  const Problem& problem_;
  base::Reporter& reporter_;
  accuracy::Baseline baseline_;
  calibrate::CalibrationTable table_;         // of float_model
  calibrate::CalibrationTable source_table_;  // of source
  std::unique_ptr<IncrementalRuns> runs_;
  int full_evaluations_ = 0;
  int64_t sample_runs_ = 0;
};

}  // namespace gq::explore
