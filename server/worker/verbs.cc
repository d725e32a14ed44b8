#include "server/worker/verbs.h"

#include <optional>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "server/worker/foreground_reporter.h"
#include "server/worker/pipeline.h"
#include "server/worker/staged_output.h"
#include "server/worker/steps/analyze.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/summary.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

constexpr int kGoalNotMet = 10;

// The report is written before any output is moved to its place, so that a full disk leaves
// neither.
absl::StatusOr<std::optional<StagedOutput>> StageReport(const VerbOptions& options) {
  if (options.report.empty()) return std::nullopt;
  GQ_ASSIGN_OR_RETURN(StagedOutput staged, StagedOutput::Create(options.report));
  return std::optional<StagedOutput>(std::move(staged));
}

absl::StatusOr<int> Finish(const Pipeline& pipeline, ForegroundReporter& reporter,
                           std::optional<StagedOutput> report, std::optional<StagedOutput> output) {
  SummaryFiles files;
  if (report) {
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(report->path(), pipeline.Report()));
  }
  if (output) {
    GQ_RETURN_IF_ERROR(output->Commit());
    files.model = output->output().string();
  }
  if (report) {
    GQ_RETURN_IF_ERROR(report->Commit());
    files.report = report->output().string();
  }
  const int code = pipeline.job().verdict() == gq::v1::VERDICT_GOAL_NOT_MET ? kGoalNotMet : 0;
  reporter.Finish(SummaryText(pipeline, files), SummaryJson(pipeline, files, code));
  return code;
}

fs::path DefaultOutput(const fs::path& model) {
  return fs::path(model.stem().string() + "_quantized.onnx");
}

}  // namespace

absl::StatusOr<int> Analyze(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  pipeline.Add(gq::v1::STEP_KIND_ANALYZE, "Analyze",
               [&](StepLog& log) { return RunAnalyze(inputs, log); });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::nullopt);
}

absl::StatusOr<int> Quantize(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  GQ_ASSIGN_OR_RETURN(StagedOutput output,
                      StagedOutput::Create(options.output.empty() ? DefaultOutput(inputs.model)
                                                                  : fs::path(options.output)));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  GraphOptimizeResult optimized;
  GraphQuantizeResult quantized;
  pipeline.Add(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "Graph Optimize",
               [&](StepLog& log) -> absl::StatusOr<json> {
                 GQ_ASSIGN_OR_RETURN(optimized, RunGraphOptimize(inputs, log));
                 return optimized.report;
               });
  pipeline.Add(gq::v1::STEP_KIND_GRAPH_QUANTIZE, "Graph Quantize",
               [&](StepLog& log) -> absl::StatusOr<json> {
                 GQ_ASSIGN_OR_RETURN(quantized,
                                     RunGraphQuantize(inputs, optimized, output.path(), log));
                 return quantized.report;
               });
  const bool evaluate =
      options.evaluate || !inputs.evaluation.empty() || inputs.spec.target_accuracy_size() > 0;
  if (evaluate) {
    pipeline.Add(gq::v1::STEP_KIND_EVALUATE, "Evaluate", [&](StepLog& log) -> absl::StatusOr<json> {
      GQ_ASSIGN_OR_RETURN(
          EvaluateResult result,
          RunEvaluate(inputs, optimized.float_model, quantized.emitted, optimized.task, log));
      pipeline.SetVerdict(VerdictOf(result.evaluation.verdict));
      return std::move(result.report);
    });
  }
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::move(output));
}

absl::StatusOr<int> Evaluate(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  pipeline.Add(gq::v1::STEP_KIND_EVALUATE, "Evaluate", [&](StepLog& log) -> absl::StatusOr<json> {
    GQ_ASSIGN_OR_RETURN(EvaluateResult result, EvaluateFiles(inputs, log));
    pipeline.SetVerdict(VerdictOf(result.evaluation.verdict));
    return std::move(result.report);
  });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::nullopt);
}

}  // namespace gq::worker
