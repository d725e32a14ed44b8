// Compares a candidate model with its reference on a data set (engine.md 9).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/accuracy/detection_match.h"
#include "common/accuracy/output_report.h"
#include "common/accuracy/target_expression.h"
#include "common/accuracy/verdict.h"
#include "common/base/reporter.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "common/runtime/session.h"

namespace gq::accuracy {

struct EvaluateOptions {
  // Tolerances of the pass rate: an element passes when |r - a| <= atol + rtol * |r|.
  double atol = 0.015;
  double rtol = 0.01;
  graph::TaskType task = graph::TaskType::kRegression;
  std::vector<TargetExpression> targets;
  // One class a row (image of the batch) of every sample, in order; negative means not known.
  std::optional<std::vector<int64_t>> labels;
  // Take labels beyond the samples of the data set as belonging to samples that are not used.
  bool allow_more_labels = false;
  // Samples that are run at the same time. The figures do not depend on it.
  int parallel_samples = 1;
  // Numbers of the samples to compare on, ascending; empty: all.
  std::vector<int64_t> only;
};

// The reference's side of evaluations over one data set: its session, and its outputs for the
// samples it has seen, so that further candidates cost one inference a sample.
class Baseline {
 public:
  // Outputs are kept up to `max_bytes`, the others are computed each time. Errors of Session.
  static absl::StatusOr<Baseline> Create(const graph::Model& reference,
                                         int64_t max_bytes = int64_t{1} << 30);

  const runtime::Session& session() const { return session_; }
  // Null when the outputs for this sample are not kept.
  const std::vector<runtime::Tensor>* Find(int64_t sample) const;
  // Keeps what the reference gave for a sample, where there is room. True when it was kept.
  bool Keep(int64_t sample, const std::vector<runtime::Tensor>& outputs);

 private:
  Baseline(runtime::Session session, int64_t max_bytes)
      : session_(std::move(session)), free_bytes_(max_bytes) {}

  runtime::Session session_;
  int64_t free_bytes_;
  std::map<int64_t, std::vector<runtime::Tensor>> outputs_;
};

// Runs a candidate in place of a session over its file.
class CandidateRunner {
 public:
  virtual ~CandidateRunner() = default;
  // Of the candidate, as Session has them.
  virtual const std::vector<runtime::TensorInfo>& inputs() const = 0;
  virtual const std::vector<runtime::TensorInfo>& outputs() const = 0;
  // Runs sample number `sample` of the data set. Called from several threads at once, never for one
  // sample twice.
  virtual absl::Status Run(int64_t sample, std::span<const runtime::Tensor> inputs,
                           std::vector<runtime::Tensor>* outputs) = 0;
};

struct Evaluation {
  int64_t samples = 0;  // compared
  int64_t skipped = 0;  // left out: NaN or infinity in the input
  graph::TaskType task = graph::TaskType::kRegression;
  std::vector<OutputReport> outputs;  // in the reference's order; without string outputs
  std::optional<DetectionFigures> detection;
  Verdict verdict;
  std::vector<std::string> warnings;
  double session_seconds = 0;    // making both sessions
  double reference_seconds = 0;  // sum over the reference's runs
  double candidate_seconds = 0;
  double seconds = 0;  // wall clock of everything
};

// Streams the samples: memory is that of one run of both models (times parallel_samples). Both run
// with basic graph optimization, Q/DQ kept in float arithmetic and one thread, so that anyone can
// repeat the figures. Inputs and outputs are matched by name; outputs whose names differ, by
// position.
//
// Errors: those of runtime::Session and DataSet; MODEL_INVALID when the candidate has other inputs
// or outputs than the reference; TARGET_INVALID when a target needs classes and no output has any;
// DATA_SHAPE_MISMATCH and DATA_INVALID for labels that do not fit; DATA_EMPTY when no sample is
// left; CANCELLED.
absl::StatusOr<Evaluation> Evaluate(const graph::Model& reference, const graph::Model& candidate,
                                    runtime::DataSet& data, const EvaluateOptions& options,
                                    base::Reporter& reporter);

// The same against a baseline, which keeps the reference's outputs. Calls with one baseline take
// the same `data`, one after the other.
absl::StatusOr<Evaluation> Evaluate(Baseline& baseline, const graph::Model& candidate,
                                    runtime::DataSet& data, const EvaluateOptions& options,
                                    base::Reporter& reporter);

// The same with the candidate's outputs from `runner`.
absl::StatusOr<Evaluation> Evaluate(Baseline& baseline, const graph::Model& candidate,
                                    CandidateRunner& runner, runtime::DataSet& data,
                                    const EvaluateOptions& options, base::Reporter& reporter);

// The samples on which `labels` may be given, for messages: labels per sample of the output that
// top-1 is taken from. Reads the values of a .npy of integers.
absl::StatusOr<std::vector<int64_t>> ReadLabels(const std::string& path);

}  // namespace gq::accuracy
