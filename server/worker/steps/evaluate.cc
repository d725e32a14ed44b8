#include "server/worker/steps/evaluate.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/performance_target.h"
#include "common/quantize/reduced_precision.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/layer_errors.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/sample_data.h"

namespace gq::worker {
namespace {

using base::StrCat;

constexpr int64_t kLayerErrorSamples = 8;

absl::StatusOr<std::vector<accuracy::TargetExpression>> Targets(const gq::v1::JobSpec& spec) {
  return accuracy::ParseTargets({spec.target_accuracy().begin(), spec.target_accuracy().end()});
}

// The candidate as the device computes it, where its file alone would not show that.
struct Shown {
  graph::Model model;
  nlohmann::json report;  // null: the file is run as it is
};

absl::StatusOr<Shown> ShowPrecision(const graph::Model& candidate, StepLog& log) {
  const quantize::HiddenPrecision hidden = quantize::FindHiddenPrecision(candidate);
  if (!hidden.any()) return Shown{candidate, nullptr};
  GQ_ASSIGN_OR_RETURN(quantize::ReducedPrecision reduced,
                      quantize::ReducedPrecisionReference(candidate, hidden.float_tensors));
  std::string done;
  if (hidden.float_tensors != 0) {
    done = StrCat(reduced.tensors, " tensors and ", reduced.constants, " constants rounded to ",
                  quantize::PrecisionName(hidden.float_tensors));
  }
  if (reduced.pairs > 0) {
    base::StrAppend(&done, done.empty() ? "" : ", ", reduced.pairs,
                    " operators of com.amd.quark as standard ones");
  }
  log.Info("Evaluate", StrCat("a CPU alone would not show the precision of the device: ",
                              hidden.reason, "; evaluated with ", done));
  for (const std::string& note : reduced.notes) log.Warn("Evaluate", note);
  nlohmann::json report = {{"reason", hidden.reason},
                           {"tensors", reduced.tensors},
                           {"constants", reduced.constants},
                           {"replaced_pairs", reduced.pairs}};
  if (hidden.float_tensors != 0) {
    report["precision"] = quantize::PrecisionName(hidden.float_tensors);
  }
  return Shown{std::move(reduced.model), std::move(report)};
}

}  // namespace

absl::StatusOr<EvaluateResult> EvaluateFiles(const JobInputs& inputs, StepLog& log) {
  if (!inputs.reference) {
    return base::MakeError(base::Reason::kFileNotFound, "there is no reference to compare with",
                           "give the FP32 model: --reference FP32.onnx");
  }
  GQ_ASSIGN_OR_RETURN(const graph::Model reference, LoadStatic(*inputs.reference, inputs, log));
  GQ_ASSIGN_OR_RETURN(const graph::Model candidate, LoadStatic(inputs.model, inputs, log));
  const graph::Analysis analysis = graph::Analyze(reference);
  const graph::TaskType task = TaskOf(inputs.spec, analysis.task);
  log.Info("Analyze", StrCat("reference: ", DescribeModel(analysis)));
  log.Info("Analyze", StrCat("candidate: ", DescribeModel(graph::Analyze(candidate))));
  log.Info("Analyze",
           StrCat("task ", graph::TaskTypeName(task), " (",
                  inputs.spec.task().empty() ? analysis.task_reason : "given by --task", ")"));
  GQ_ASSIGN_OR_RETURN(EvaluateResult result, RunEvaluate(inputs, reference, candidate, task, log));
  GQ_ASSIGN_OR_RETURN(result.report["reference"], ModelFileJson(*inputs.reference, reference));
  GQ_ASSIGN_OR_RETURN(result.report["model"], ModelFileJson(inputs.model, candidate));
  result.report["identity"] = IdentityJson(inputs.spec);
  return result;
}

void LogVerdict(const accuracy::Verdict& verdict, StepLog& log) {
  const std::string_view mark = verdict.default_goal ? " (default goal)" : "";
  switch (verdict.result) {
    case accuracy::VerdictResult::kGoalMet:
      log.Info("Verdict", StrCat("goal met", mark, ": ", verdict.reason));
      break;
    case accuracy::VerdictResult::kGoalNotMet:
      log.Warn("Verdict", StrCat("goal not met", mark, ": ", verdict.reason));
      break;
    case accuracy::VerdictResult::kNotJudged:
      log.Info("Verdict", StrCat("not judged", mark, ": ", verdict.reason));
      break;
  }
  if (!verdict.default_goal && !verdict.default_judgement.reason.empty()) {
    log.Info("Verdict",
             StrCat("the default goal would be ",
                    verdict.default_judgement.result == accuracy::VerdictResult::kGoalMet ? "met"
                    : verdict.default_judgement.result == accuracy::VerdictResult::kGoalNotMet
                        ? "missed"
                        : "left open",
                    ": ", verdict.default_judgement.reason));
  }
}

absl::Status CheckGoals(const gq::v1::JobSpec& spec) {
  GQ_RETURN_IF_ERROR(Targets(spec).status());
  return job::CheckPerformanceTargets(spec);
}

gq::v1::Verdict VerdictOf(const accuracy::Verdict& verdict) {
  switch (verdict.result) {
    case accuracy::VerdictResult::kGoalMet:
      return gq::v1::VERDICT_GOAL_MET;
    case accuracy::VerdictResult::kGoalNotMet:
      return gq::v1::VERDICT_GOAL_NOT_MET;
    case accuracy::VerdictResult::kNotJudged:
      break;
  }
  return gq::v1::VERDICT_NOT_JUDGED;
}

absl::StatusOr<accuracy::EvaluateOptions> EvaluateOptionsOf(const JobInputs& inputs,
                                                            graph::TaskType task) {
  accuracy::EvaluateOptions options;
  if (inputs.spec.has_atol()) options.atol = inputs.spec.atol();
  if (inputs.spec.has_rtol()) options.rtol = inputs.spec.rtol();
  options.task = task;
  options.parallel_samples = inputs.Threads();
  options.allow_more_labels = inputs.spec.has_num_samples();
  GQ_ASSIGN_OR_RETURN(options.targets, Targets(inputs.spec));
  if (inputs.labels) {
    GQ_ASSIGN_OR_RETURN(options.labels, accuracy::ReadLabels(inputs.labels->string()));
  }
  return options;
}

absl::StatusOr<EvaluateResult> RunEvaluate(const JobInputs& inputs, const graph::Model& reference,
                                           const graph::Model& candidate, graph::TaskType task,
                                           StepLog& log) {
  GQ_ASSIGN_OR_RETURN(const accuracy::EvaluateOptions options, EvaluateOptionsOf(inputs, task));
  GQ_ASSIGN_OR_RETURN(const SampleData data, OpenEvaluationData(inputs, reference, log));

  EvaluateResult result;
  GQ_ASSIGN_OR_RETURN(Shown shown, ShowPrecision(candidate, log));
  GQ_ASSIGN_OR_RETURN(result.evaluation,
                      accuracy::Evaluate(reference, shown.model, *data.samples, options, log));
  const accuracy::Evaluation& evaluation = result.evaluation;
  for (const accuracy::OutputReport& output : evaluation.outputs) {
    log.Info("Evaluate", accuracy::SummaryLine(output));
  }
  log.Info("Evaluate", StrCat(evaluation.samples, " ", data.source,
                              " samples, Q/DQ in float arithmetic, one thread a model"));
  LogVerdict(evaluation.verdict, log);

  result.report = accuracy::EvaluationJson(evaluation);
  if (!shown.report.is_null()) result.report["reduced_precision"] = std::move(shown.report);
  const auto errors = LayerErrors(reference, candidate, *data.samples, kLayerErrorSamples, log);
  if (!errors.ok() && base::GetReason(errors.status()) == base::Reason::kCancelled) {
    return errors.status();
  }
  if (!errors.ok()) {
    log.Warn("Evaluate", StrCat("the error of single layers could not be measured: ",
                                base::FromAbsl(errors.status().message())));
  } else if (!errors->empty()) {
    result.report["layer_errors"] = *errors;
    result.report["layer_error_samples"] = std::min(kLayerErrorSamples, data.samples->size());
    const nlohmann::json& snr = errors->front()["snr_db"];
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", snr.is_number() ? snr.get<double>() : 0.0);
    log.Info("Evaluate",
             StrCat("largest error of a layer: ", errors->front().value("tensor", ""), " (",
                    errors->front().value("op", ""), "), SNR ",
                    snr.is_number() ? std::string(text) : snr.get<std::string>(), " dB"));
  }
  result.report["data"]["source"] = data.source;
  GQ_ASSIGN_OR_RETURN(result.report["data"]["digest"], data.samples->Digest());
  result.report["warnings"] = log.warnings();
  return result;
}

}  // namespace gq::worker
