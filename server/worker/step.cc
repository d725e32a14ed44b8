#include "server/worker/step.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/ort_library.h"
#include "server/worker/steps/analyze.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/job_inputs.h"
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
  const auto detected = TaskFromName(analysis.value("task", ""));
  return TaskOf(lease.spec(), detected.value_or(graph::TaskType::kRegression));
}

absl::StatusOr<StepResult> GraphOptimizeStep(rpc::StepContext& context, const JobInputs& inputs,
                                             StepLog& log) {
  GQ_RETURN_IF_ERROR(CheckGoals(inputs.spec));
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

absl::StatusOr<StepResult> GraphQuantizeStep(rpc::StepContext& context, const JobInputs& inputs,
                                             StepLog& log) {
  GraphOptimizeResult optimized;
  GQ_ASSIGN_OR_RETURN(optimized.float_model, LoadArtifact(context, kFloatModelFile));
  GQ_ASSIGN_OR_RETURN(optimized.user_model, graph::LoadModel(inputs.model));
  optimized.task = EarlierTask(context.lease);
  const json part = EarlierReport(context.lease, "renamed_nodes");
  if (part.contains("renamed_nodes")) {
    for (const auto& [from, to] : part["renamed_nodes"].items()) {
      if (to.is_string()) optimized.renamed_nodes[from] = to.get<std::string>();
    }
  }
  GQ_ASSIGN_OR_RETURN(const fs::path output, context.files.output(kQuantizedModelFile));
  GQ_ASSIGN_OR_RETURN(const fs::path config, context.files.output(kQuarkConfigFile));
  GQ_ASSIGN_OR_RETURN(const GraphQuantizeResult result,
                      RunGraphQuantize(inputs, optimized, output, log));
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(config, result.config_json));
  StepResult step;
  step.set_report_json(Dump(result.report));
  return step;
}

absl::StatusOr<StepResult> EvaluateStep(rpc::StepContext& context, const JobInputs& inputs,
                                        StepLog& log) {
  EvaluateResult result;
  if (context.lease.spec().kind() == gq::v1::JOB_KIND_EVALUATE) {
    GQ_ASSIGN_OR_RETURN(result, EvaluateFiles(inputs, log));
  } else {
    GQ_ASSIGN_OR_RETURN(const graph::Model reference, LoadArtifact(context, kFloatModelFile));
    GQ_ASSIGN_OR_RETURN(const graph::Model candidate, LoadArtifact(context, kQuantizedModelFile));
    GQ_ASSIGN_OR_RETURN(result,
                        RunEvaluate(inputs, reference, candidate, EarlierTask(context.lease), log));
  }
  StepResult step;
  step.set_verdict(VerdictOf(result.evaluation.verdict));
  step.set_report_json(Dump(result.report));
  return step;
}

absl::StatusOr<StepResult> Dispatch(rpc::StepContext& context, const JobInputs& inputs,
                                    StepLog& log) {
  switch (context.lease.kind()) {
    case gq::v1::STEP_KIND_GRAPH_OPTIMIZE:
      return GraphOptimizeStep(context, inputs, log);
    case gq::v1::STEP_KIND_GRAPH_QUANTIZE:
      return GraphQuantizeStep(context, inputs, log);
    case gq::v1::STEP_KIND_EVALUATE:
      return EvaluateStep(context, inputs, log);
    case gq::v1::STEP_KIND_ANALYZE: {
      GQ_ASSIGN_OR_RETURN(const json report, RunAnalyze(inputs, log));
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
  absl::StatusOr<StepResult> result = Dispatch(context, *inputs, log);
  if (result.ok()) return result;
  const absl::Status& error = result.status();
  return MakeError(base::GetReason(error), WithUserNames(base::FromAbsl(error.message()), work_dir),
                   base::GetHint(error));
}

}  // namespace gq::worker
