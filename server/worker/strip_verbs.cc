// gq-worker dequantize and requantize.
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/worker/finish.h"
#include "server/worker/steps/dequantize.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/verb_steps.h"
#include "server/worker/verbs.h"

namespace gq::worker {

using nlohmann::json;

absl::StatusOr<int> Dequantize(const job::JobRequest& request, const VerbOptions& options) {
  GQ_ASSIGN_OR_RETURN(const JobInputs inputs, InputsOfRequest(request));
  GQ_ASSIGN_OR_RETURN(auto report, StageReport(options));
  GQ_ASSIGN_OR_RETURN(StagedOutput output, StageModel(options, inputs, "_float.onnx"));
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
  GQ_ASSIGN_OR_RETURN(StagedOutput output, StageModel(options, given, "_requantized.onnx"));
  // The stripped model is a step on the way: it goes with its folder.
  GQ_ASSIGN_OR_RETURN(
      const StagedOutput stripped,
      StagedOutput::Create(output.output().parent_path() /
                           base::StrCat(given.model.stem().string(), "_stripped.onnx")));
  const JobInputs inputs = InputsAfterStrip(given, stripped.path());
  ForegroundReporter reporter(request.local);
  Pipeline pipeline(given.spec, reporter);
  QuantizedOnTheWay models;
  pipeline.Add(
      gq::v1::STEP_KIND_DEQUANTIZE, "Dequantize", [&](StepLog& log) -> absl::StatusOr<json> {
        GQ_ASSIGN_OR_RETURN(DequantizeResult result, RunDequantize(given, stripped.path(), log));
        return std::move(result.report);
      });
  AddGraphQuantize(pipeline, inputs, output.path(), models);
  pipeline.Add(gq::v1::STEP_KIND_EVALUATE, "Evaluate", [&](StepLog& log) -> absl::StatusOr<json> {
    GQ_ASSIGN_OR_RETURN(
        EvaluateResult result,
        RunRequantizedEvaluate(inputs, models.optimized.float_model, models.quantized.emitted,
                               models.optimized.task, log));
    pipeline.SetVerdict(VerdictOf(result.evaluation.verdict));
    return std::move(result.report);
  });
  GQ_RETURN_IF_ERROR(pipeline.Run());
  return Finish(pipeline, reporter, std::move(report), std::move(output));
}

}  // namespace gq::worker
