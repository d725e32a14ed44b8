#include "server/worker/steps/evaluate.h"

#include <string>
#include <utility>
#include <vector>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/sample_data.h"

namespace gq::worker {
namespace {

using base::StrCat;

absl::StatusOr<std::vector<accuracy::TargetExpression>> Targets(const gq::v1::JobSpec& spec) {
  return accuracy::ParseTargets({spec.target_accuracy().begin(), spec.target_accuracy().end()});
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

}  // namespace

absl::StatusOr<EvaluateResult> EvaluateFiles(const JobInputs& inputs, StepLog& log) {
  if (!inputs.reference) {
    return base::MakeError(base::Reason::kFileNotFound, "there is no reference to compare with",
                           "give the FP32 model: --reference FP32.onnx");
  }
  GQ_ASSIGN_OR_RETURN(const graph::Model reference,
                      LoadStatic(*inputs.reference, inputs.spec, log));
  GQ_ASSIGN_OR_RETURN(const graph::Model candidate, LoadStatic(inputs.model, inputs.spec, log));
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

absl::Status CheckGoals(const gq::v1::JobSpec& spec) { return Targets(spec).status(); }

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

absl::StatusOr<EvaluateResult> RunEvaluate(const JobInputs& inputs, const graph::Model& reference,
                                           const graph::Model& candidate, graph::TaskType task,
                                           StepLog& log) {
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
  GQ_ASSIGN_OR_RETURN(const SampleData data, OpenEvaluationData(inputs, reference, log));

  EvaluateResult result;
  GQ_ASSIGN_OR_RETURN(result.evaluation,
                      accuracy::Evaluate(reference, candidate, *data.samples, options, log));
  const accuracy::Evaluation& evaluation = result.evaluation;
  for (const accuracy::OutputReport& output : evaluation.outputs) {
    log.Info("Evaluate", accuracy::SummaryLine(output));
  }
  log.Info("Evaluate", StrCat(evaluation.samples, " ", data.source,
                              " samples, Q/DQ in float arithmetic, one thread a model"));
  LogVerdict(evaluation.verdict, log);

  result.report = accuracy::EvaluationJson(evaluation);
  result.report["data"]["source"] = data.source;
  GQ_ASSIGN_OR_RETURN(result.report["data"]["digest"], data.samples->Digest());
  result.report["warnings"] = log.warnings();
  return result;
}

}  // namespace gq::worker
