// gq-worker dequantize and requantize.
#include <filesystem>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/worker/finish.h"
#include "server/worker/steps/dequantize.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/verbs.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path OutputOf(const VerbOptions& options, const JobInputs& inputs, const char* ending) {
  if (!options.output.empty()) return options.output;
  return {base::StrCat(inputs.model.stem().string(), ending)};
}

}  // namespace

absl::StatusOr<int> Dequantize(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  GQ_ASSIGN_OR_RETURN(StagedOutput output,
                      StagedOutput::Create(OutputOf(options, inputs, "_float.onnx")));
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(inputs.spec, reporter);
  pipeline.Add(
      gq::v1::STEP_KIND_DEQUANTIZE, "Dequantize", [&](StepLog& log) -> absl::StatusOr<json> {
        GQ_ASSIGN_OR_RETURN(DequantizeResult result, RunDequantize(inputs, output.path(), log));
        return std::move(result.report);
      });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::move(output));
}

absl::StatusOr<int> Requantize(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs given, InputsOfRequest(request));
  GQ_RETURN_IF_ERROR(CheckGoals(given.spec));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  GQ_ASSIGN_OR_RETURN(StagedOutput output,
                      StagedOutput::Create(OutputOf(options, given, "_requantized.onnx")));
  // The stripped model is a step on the way: it goes with its folder.
  GQ_ASSIGN_OR_RETURN(
      const StagedOutput stripped,
      StagedOutput::Create(output.output().parent_path() /
                           base::StrCat(given.model.stem().string(), "_stripped.onnx")));
  const JobInputs inputs = InputsAfterStrip(given, stripped.path());
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(given.spec, reporter);
  GraphOptimizeResult optimized;
  GraphQuantizeResult quantized;
  pipeline.Add(
      gq::v1::STEP_KIND_DEQUANTIZE, "Dequantize", [&](StepLog& log) -> absl::StatusOr<json> {
        GQ_ASSIGN_OR_RETURN(DequantizeResult result, RunDequantize(given, stripped.path(), log));
        return std::move(result.report);
      });
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
  pipeline.Add(gq::v1::STEP_KIND_EVALUATE, "Evaluate", [&](StepLog& log) -> absl::StatusOr<json> {
    GQ_ASSIGN_OR_RETURN(EvaluateResult result,
                        RunRequantizedEvaluate(inputs, optimized.float_model, quantized.emitted,
                                               optimized.task, log));
    pipeline.SetVerdict(VerdictOf(result.evaluation.verdict));
    return std::move(result.report);
  });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::move(output));
}

}  // namespace gq::worker
