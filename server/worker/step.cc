#include "server/worker/step.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/task_type.h"
#include "common/job/performance_target.h"
#include "common/runtime/ort_library.h"
#include "server/worker/steps/analyze.h"
#include "server/worker/steps/dequantize.h"
#include "server/worker/steps/dry_run.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/explore.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/layer_errors.h"
#include "server/worker/steps/recovery_files.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using gq::v1::StepResult;
using nlohmann::json;

std::string Dump(const json& part) {
  return part.dump(-1, ' ', false, json::error_handler_t::replace);
}

graph::LoadOptions OwnFile() {
  graph::LoadOptions options;
  options.check = options.normalize = false;
  return options;
}

absl::StatusOr<graph::Model> LoadArtifact(const rpc::StepContext& context, std::string_view name) {
  const std::optional<fs::path> path = context.files.artifact(name);
  if (!path) {
    return MakeError(Reason::kInternal,
                     StrCat("the result ", name, " of an earlier step is missing"));
  }
  return graph::LoadModel(*path, OwnFile());
}

// The fragment of an earlier step that has `key`.
json EarlierReport(const gq::v1::Lease& lease, const char* key) {
  for (const std::string& text : lease.earlier_reports()) {
    json part = json::parse(text, nullptr, false);
    if (part.is_object() && part.contains(key)) return part;
  }
  return json::object();
}

graph::TaskType EarlierTask(const gq::v1::Lease& lease) {
  const json part = EarlierReport(lease, "analysis");
  const json analysis = part.value("analysis", json::object());
  const auto detected = graph::TaskFromName(analysis.value("task", ""));
  return TaskOf(lease.spec(), detected.value_or(graph::TaskType::kRegression));
}

absl::StatusOr<StepResult> GraphOptimizeStep(rpc::StepContext& context, const JobInputs& inputs,
                                             StepLog& log) {
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_RETURN_IF_ERROR(CheckSearch(inputs.spec));
  GQ_ASSIGN_OR_RETURN(GraphOptimizeResult result, RunGraphOptimize(inputs, log));
  GQ_ASSIGN_OR_RETURN(const fs::path output, context.files.output(kFloatModelFile));
  graph::SaveOptions save;
  save.layout = result.user_model.layout();
  GQ_RETURN_IF_ERROR(graph::SaveModel(result.float_model, output, save));
  std::error_code ignored;
  result.report["float_model"] = {{"file", kFloatModelFile},
                                  {"bytes", static_cast<int64_t>(fs::file_size(output, ignored))}};
  StepResult step;
  step.set_report_json(Dump(result.report));
  return step;
}

// What Graph Optimize of this job made; the model itself in a job without that step.
absl::StatusOr<GraphOptimizeResult> LoadOptimized(const rpc::StepContext& context,
                                                  const JobInputs& inputs, StepLog& log) {
  GraphOptimizeResult optimized;
  if (!context.files.artifact(kFloatModelFile)) return TakeModelAsItIs(inputs, log);
  GQ_ASSIGN_OR_RETURN(optimized.float_model, LoadArtifact(context, kFloatModelFile));
  GQ_ASSIGN_OR_RETURN(optimized.user_model, graph::LoadModel(inputs.model));
  optimized.task = EarlierTask(context.lease);
  optimized.report = EarlierReport(context.lease, "analysis");
  const json part = EarlierReport(context.lease, "renamed_nodes");
  if (part.contains("renamed_nodes")) {
    for (const auto& [from, to] : part["renamed_nodes"].items()) {
      if (to.is_string()) optimized.renamed_nodes[from] = to.get<std::string>();
    }
  }
  return optimized;
}

absl::StatusOr<StepResult> EvaluateStep(rpc::StepContext& context, const JobInputs& inputs,
                                        StepLog& log) {
  EvaluateResult result;
  if (context.lease.spec().kind() == gq::v1::JOB_KIND_EVALUATE) {
    GQ_ASSIGN_OR_RETURN(result, EvaluateFiles(inputs, log));
  } else {
    GQ_ASSIGN_OR_RETURN(const graph::Model reference, LoadArtifact(context, kFloatModelFile));
    GQ_ASSIGN_OR_RETURN(const graph::Model candidate, LoadArtifact(context, kQuantizedModelFile));
    const graph::TaskType task = EarlierTask(context.lease);
    if (inputs.quantized) {
      GQ_ASSIGN_OR_RETURN(result, RunRequantizedEvaluate(inputs, reference, candidate, task, log));
    } else {
      GQ_ASSIGN_OR_RETURN(result, RunEvaluate(inputs, reference, candidate, task, log));
    }
  }
  StepResult step;
  step.set_verdict(VerdictOf(result.evaluation.verdict));
  step.set_report_json(Dump(result.report));
  return step;
}

absl::StatusOr<StepResult> DequantizeStep(rpc::StepContext& context, const JobInputs& inputs,
                                          StepLog& log) {
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
  GQ_ASSIGN_OR_RETURN(const fs::path output, context.files.output(kStrippedModelFile));
  GQ_ASSIGN_OR_RETURN(const DequantizeResult result, RunDequantize(inputs, output, log));
  StepResult step;
  step.set_report_json(Dump(result.report));
  return step;
}

// Writes iterations to the server's ledger.
class LeaseJournal : public explore::Journal {
 public:
  explicit LeaseJournal(rpc::StepContext& context) : context_(context) {}
  absl::Status Record(const explore::IterationRecord& record) override {
    gq::v1::Iteration iteration = ToIteration(record, context_.lease.step_index());
    char folder[48];
    std::snprintf(folder, sizeof folder, "iterations/%02d/%s", record.number, kQuarkConfigFile);
    GQ_ASSIGN_OR_RETURN(const fs::path config, context_.files.output(folder));
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(config, record.config_json));
    return context_.channel.SendIteration(iteration);
  }

 private:
  rpc::StepContext& context_;
};

absl::StatusOr<StepResult> ExploreStep(rpc::StepContext& context, const JobInputs& inputs,
                                       StepLog& log) {
  GQ_ASSIGN_OR_RETURN(const GraphOptimizeResult optimized, LoadOptimized(context, inputs, log));
  GQ_ASSIGN_OR_RETURN(const graph::Model quantized, LoadArtifact(context, kQuantizedModelFile));
  const json quantize_report = EarlierReport(context.lease, "sizes");
  const json evaluate_report = EarlierReport(context.lease, "verdict");
  GQ_ASSIGN_OR_RETURN(const fs::path output, context.files.output(kQuantizedModelFile));
  GQ_ASSIGN_OR_RETURN(const fs::path config, context.files.output(kQuarkConfigFile));
  std::vector<explore::IterationRecord> earlier;
  for (const auto& iteration : context.lease.iterations()) {
    earlier.push_back(FromIteration(iteration));
  }
  LeaseJournal journal(context);
  GQ_ASSIGN_OR_RETURN(const std::optional<quantize::RecoverySource> source,
                      ReadRecoverySource(optimized.float_model, context.files));
  GQ_ASSIGN_OR_RETURN(
      const ExploreResult result,
      RunExplore(inputs, optimized,
                 {quantized, quantize_report, evaluate_report, source ? &*source : nullptr},
                 {.model = output, .iterations = output.parent_path() / "iterations"}, earlier,
                 journal, log));
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(config, result.config_json));
  StepResult step;
  step.set_verdict(result.verdict);
  step.set_report_json(Dump(result.report));
  return step;
}

// Searches inside Graph Quantize (automatic_mixed_precision): the best model takes the place of
// `quantized`.
absl::Status SearchInQuantize(rpc::StepContext& context, const JobInputs& inputs,
                              const GraphOptimizeResult& optimized, const fs::path& output,
                              GraphQuantizeResult& quantized, StepLog& log) {
  GQ_ASSIGN_OR_RETURN(
      const EvaluateResult evaluated,
      RunEvaluate(inputs, optimized.float_model, quantized.emitted, optimized.task, log));
  std::vector<explore::IterationRecord> earlier;
  for (const auto& iteration : context.lease.iterations()) {
    earlier.push_back(FromIteration(iteration));
  }
  LeaseJournal journal(context);
  GQ_ASSIGN_OR_RETURN(
      ExploreResult found,
      RunExplore(inputs, optimized,
                 {quantized.emitted, quantized.report, evaluated.report, &quantized.source},
                 {.model = output, .iterations = output.parent_path() / "iterations"}, earlier,
                 journal, log));
  quantized.config_json = std::move(found.config_json);
  json trace = std::move(found.report);
  if (const auto result = trace.find("result"); result != trace.end()) {
    if (result->contains("graph_quantize"))
      quantized.report = std::move((*result)["graph_quantize"]);
    trace.erase("result");
  }
  quantized.report["explore"] = std::move(trace);
  return absl::OkStatus();
}

absl::StatusOr<StepResult> GraphQuantizeStep(rpc::StepContext& context, const JobInputs& inputs,
                                             StepLog& log) {
  const bool as_it_is = !context.files.artifact(kFloatModelFile);
  if (as_it_is) {
    GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
    GQ_RETURN_IF_ERROR(CheckSearch(inputs.spec));
  }
  GQ_ASSIGN_OR_RETURN(const GraphOptimizeResult optimized, LoadOptimized(context, inputs, log));
  GQ_ASSIGN_OR_RETURN(const fs::path output, context.files.output(kQuantizedModelFile));
  GQ_ASSIGN_OR_RETURN(const fs::path config, context.files.output(kQuarkConfigFile));
  GQ_ASSIGN_OR_RETURN(GraphQuantizeResult result, RunGraphQuantize(inputs, optimized, output, log));
  if (inputs.spec.search_in_quantize()) {
    GQ_RETURN_IF_ERROR(SearchInQuantize(context, inputs, optimized, output, result, log));
  }
  if (inputs.spec.explore() && result.report.contains("recovery")) {
    GQ_RETURN_IF_ERROR(WriteRecoverySource(result.source, optimized.float_model, context.files));
  }
  if (as_it_is) {
    // Evaluate compares with it.
    GQ_ASSIGN_OR_RETURN(const fs::path reference, context.files.output(kFloatModelFile));
    GQ_RETURN_IF_ERROR(graph::SaveModel(optimized.float_model, reference,
                                        graph::SameLayout(optimized.float_model)));
    result.report["analysis"] = {{"task", graph::TaskTypeName(optimized.task)}};
  }
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(config, result.config_json));
  StepResult step;
  step.set_report_json(Dump(result.report));
  return step;
}

absl::StatusOr<StepResult> Dispatch(rpc::StepContext& context, const JobInputs& inputs,
                                    StepLog& log) {
  switch (context.lease.kind()) {
    case gq::v1::STEP_KIND_DEQUANTIZE:
      return DequantizeStep(context, inputs, log);
    case gq::v1::STEP_KIND_GRAPH_OPTIMIZE:
      return GraphOptimizeStep(context, inputs, log);
    case gq::v1::STEP_KIND_GRAPH_QUANTIZE:
      return GraphQuantizeStep(context, inputs, log);
    case gq::v1::STEP_KIND_EVALUATE:
      return EvaluateStep(context, inputs, log);
    case gq::v1::STEP_KIND_DRY_RUN: {
      GQ_ASSIGN_OR_RETURN(const GraphOptimizeResult optimized, LoadOptimized(context, inputs, log));
      GQ_ASSIGN_OR_RETURN(const json report, RunDryRun(inputs, optimized, log));
      StepResult step;
      step.set_report_json(Dump(report));
      return step;
    }
    case gq::v1::STEP_KIND_EXPLORE:
      return ExploreStep(context, inputs, log);
    case gq::v1::STEP_KIND_ANALYZE: {
      GQ_ASSIGN_OR_RETURN(json report, RunAnalyze(inputs, log));
      if (inputs.reference) GQ_RETURN_IF_ERROR(AddLayerErrors(inputs, log, report));
      StepResult step;
      step.set_report_json(Dump(report));
      return step;
    }
    default:
      return MakeError(Reason::kNotAvailable,
                       StrCat("a worker does not do the step '", context.lease.title(), "'"),
                       "update the workers to the server's version");
  }
}

// Goals on the model itself are judged by the step that compiles it, and here where none follows.
void JudgeModelGoals(const gq::v1::Lease& lease, StepLog& log, StepResult& result) {
  const bool last = lease.step_index() + 1 == lease.step_count();
  if (!last || lease.spec().target_performance().empty()) return;
  std::vector<nlohmann::ordered_json> earlier;
  for (const std::string& text : lease.earlier_reports()) {
    earlier.push_back(nlohmann::ordered_json::parse(text, nullptr, false));
  }
  auto own = nlohmann::ordered_json::parse(result.report_json(), nullptr, false);
  if (!job::JudgeTargets(lease.spec(), earlier, {job::MeasuredBy::kQuantize}, log, own)) {
    result.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
  }
  result.set_report_json(own.dump(-1, ' ', false, json::error_handler_t::replace));
}

// The user knows the files by the names they were given, not by their places in WORKDIR.
std::string WithUserNames(std::string_view text, const fs::path& work_dir) {
  std::string result(text);
  for (const char* folder : {"tmp/data/calibration/", "tmp/data/evaluation/", "in/model/",
                             "in/reference/", "in/labels/", "out/"}) {
    const std::string prefix = (work_dir / folder).string();
    for (size_t at; (at = result.find(prefix)) != std::string::npos;) {
      size_t length = prefix.size();
      if (folder[0] == 't') {  // the number of the file follows
        const size_t slash = result.find('/', at + length);
        if (slash != std::string::npos) length = slash + 1 - at;
      }
      result.erase(at, length);
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<StepResult> RunLease(rpc::StepContext& context) {
  const fs::path& work_dir = context.files.work_dir();
  GQ_RETURN_IF_ERROR(runtime::OrtLibrary::Get().status());
  StepLog log(context.reporter);
  log.SetRewrite([&work_dir](std::string_view text) { return WithUserNames(text, work_dir); });
  auto inputs = InputsOfLease(context.lease, context.files);
  if (!inputs.ok()) return inputs.status();
  if (const auto stripped = context.files.artifact(kStrippedModelFile)) {
    *inputs = InputsAfterStrip(*std::move(inputs), *stripped);
  }
  absl::StatusOr<StepResult> result = Dispatch(context, *inputs, log);
  if (result.ok()) {
    JudgeModelGoals(context.lease, log, *result);
    return result;
  }
  const absl::Status& error = result.status();
  return MakeError(base::GetReason(error), WithUserNames(base::FromAbsl(error.message()), work_dir),
                   base::GetHint(error));
}

}  // namespace gq::worker
