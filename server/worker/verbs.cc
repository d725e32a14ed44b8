#include "server/worker/verbs.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/compile/partition_report.h"
#include "server/worker/finish.h"
#include "server/worker/foreground_reporter.h"
#include "server/worker/pipeline.h"
#include "server/worker/staged_output.h"
#include "server/worker/steps/analyze.h"
#include "server/worker/steps/dry_run.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/explore.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/layer_errors.h"
#include "server/worker/verb_steps.h"

namespace gq::worker {
namespace {

using nlohmann::json;

// A finished compile in place of a model.
absl::StatusOr<int> AnalyzeCompiled(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(auto file, StageReport(options));
  GQ_ASSIGN_OR_RETURN(const compile::PartitionReport report,
                      compile::AnalyzeCompiled(request.local.compiled));
  const std::string text = compile::PartitionJson(report).dump(
      2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (request.local.json) {
    std::cout << compile::PartitionJson(report).dump(
                     -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << "\n";
  } else {
    for (const std::string& line : compile::DescribePartitions(report)) {
      std::cout << base::StripControl(line) << "\n";
    }
    for (const std::string& warning : report.warnings) {
      std::cout << "Warning: " << base::StripControl(warning) << "\n";
    }
  }
  if (!file) return 0;
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(file->path(), text + "\n"));
  GQ_RETURN_IF_ERROR(file->Commit());
  return 0;
}

}  // namespace

absl::StatusOr<int> Analyze(const job::JobRequest& request, const VerbOptions& options) {
  if (!request.local.compiled.empty()) return AnalyzeCompiled(request, options);
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  pipeline.Add(gq::v1::STEP_KIND_ANALYZE, "Analyze", [&](StepLog& log) -> absl::StatusOr<json> {
    GQ_ASSIGN_OR_RETURN(json part, RunAnalyze(inputs, log));
    if (inputs.reference) GQ_RETURN_IF_ERROR(AddLayerErrors(inputs, log, part));
    return part;
  });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::nullopt);
}

absl::StatusOr<int> Quantize(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  GQ_ASSIGN_OR_RETURN(StagedOutput output, StageModel(options, inputs, "_quantized.onnx"));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  QuantizedOnTheWay models;
  AddGraphQuantize(pipeline, inputs, output.path(), models);
  const bool evaluate = options.evaluate || !inputs.evaluation.empty() ||
                        inputs.spec.target_accuracy_size() > 0 ||
                        std::find(inputs.spec.step().begin(), inputs.spec.step().end(),
                                  "evaluate") != inputs.spec.step().end();
  if (evaluate) {
    pipeline.Add(gq::v1::STEP_KIND_EVALUATE, "Evaluate", [&](StepLog& log) -> absl::StatusOr<json> {
      GQ_ASSIGN_OR_RETURN(EvaluateResult result,
                          RunEvaluate(inputs, models.optimized.float_model,
                                      models.quantized.emitted, models.optimized.task, log));
      pipeline.SetVerdict(VerdictOf(result.evaluation.verdict));
      return std::move(result.report);
    });
  }
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::move(output));
}

absl::StatusOr<int> DryRun(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  GraphOptimizeResult optimized;
  AddGraphOptimize(pipeline, inputs, optimized);
  pipeline.Add(gq::v1::STEP_KIND_DRY_RUN, "Dry Run",
               [&](StepLog& log) { return RunDryRun(inputs, optimized, log); });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::nullopt);
}

absl::StatusOr<int> Explore(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_RETURN_IF_ERROR(CheckSearch(inputs.spec));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  GQ_ASSIGN_OR_RETURN(StagedOutput output, StageModel(options, inputs, "_quantized.onnx"));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  QuantizedOnTheWay models;
  EvaluateResult evaluated;
  AddGraphQuantize(pipeline, inputs, output.path(), models);
  pipeline.Add(gq::v1::STEP_KIND_EVALUATE, "Evaluate", [&](StepLog& log) -> absl::StatusOr<json> {
    GQ_ASSIGN_OR_RETURN(evaluated,
                        RunEvaluate(inputs, models.optimized.float_model, models.quantized.emitted,
                                    models.optimized.task, log));
    return evaluated.report;
  });
  pipeline.Add(gq::v1::STEP_KIND_EXPLORE, "Explore", [&](StepLog& log) -> absl::StatusOr<json> {
    explore::MemoryJournal journal;
    const GraphQuantizeResult& quantized = models.quantized;
    GQ_ASSIGN_OR_RETURN(
        ExploreResult result,
        RunExplore(inputs, models.optimized,
                   {quantized.emitted, quantized.report, evaluated.report, &quantized.source},
                   {.model = output.path()}, {}, journal, log));
    pipeline.SetVerdict(result.verdict);
    return std::move(result.report);
  });
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
