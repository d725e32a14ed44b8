#include "server/worker/steps/explore.h"

#include <cstdio>
#include <set>
#include <utility>

#include "common/accuracy/evaluation_json.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/explore.h"
#include "common/explore/limits.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/recover/recovery_source.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/mixed_layers.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

explore::StrategyKind StrategyOf(const gq::v1::JobSpec& spec) {
  return spec.explore_strategy() == "sensitivity" ? explore::StrategyKind::kSensitivity
                                                  : explore::StrategyKind::kGreedy;
}

// What the device computes promoted layers in (engine.md 10).
absl::StatusOr<explore::Limits> LimitsOf(const gq::v1::JobSpec& spec) {
  GQ_ASSIGN_OR_RETURN(explore::Limits limits, explore::ParseLimits({spec.explore_limit().begin(),
                                                                    spec.explore_limit().end()}));
  for (const std::string& limit : spec.explore_limit()) {
    if (limit.starts_with("precision=")) return limits;
  }
  if (spec.device().starts_with("xnnpack") || spec.device().starts_with("ethos-u")) {
    limits.precision = onnx::TensorProto::FLOAT;
    return limits;
  }
  GQ_ASSIGN_OR_RETURN(limits.precision, PrecisionOfLayers(spec));
  return limits;
}

absl::Status RefuseScheme(const quantize::QuantizeConfig& config) {
  const auto integer = [](quantize::ElementType type) {
    return type == onnx::TensorProto::INT8 || type == onnx::TensorProto::UINT8 ||
           type == onnx::TensorProto::INT16 || type == onnx::TensorProto::UINT16;
  };
  if (config.dynamic == quantize::DynamicForm::kNone && integer(config.activation.type)) {
    return absl::OkStatus();
  }
  return base::MakeError(
      base::Reason::kSchemeIllegal,
      StrCat("the scheme ", config.scheme,
             " has no layers with integers and fixed ranges that could be promoted"),
      "explore from vint8, xint8, W8-A8 or W8-A16");
}

// The precision of every node of the best model, and which row promoted it.
void MarkPromoted(const explore::Exploration& e, std::string_view precision, json* quantize) {
  const std::set<std::string> nodes(e.best.nodes.begin(), e.best.nodes.end());
  if (!quantize->contains("layers")) return;
  for (json& layer : (*quantize)["layers"]) {
    if (!nodes.contains(layer.value("node", ""))) continue;
    layer["precision"] = precision;
    layer["reason"] = StrCat("promotion ", e.best_row);
  }
}

absl::Status WriteIterations(const explore::Exploration& e, const graph::Model& user_model,
                             const fs::path& folder) {
  if (folder.empty()) return absl::OkStatus();
  for (const explore::ParetoPoint& point : e.pareto) {
    char name[16];
    std::snprintf(name, sizeof name, "%02d", point.number);
    const fs::path own = folder / name;
    std::error_code error;
    fs::create_directories(own, error);
    if (error) {
      return base::MakeError(base::Reason::kFileUnwritable,
                             StrCat(own.string(), ": ", error.message()));
    }
    const fs::path model = own / "model_quantized.onnx";
    GQ_RETURN_IF_ERROR(
        graph::SaveModel(point.candidate.model, model, LayoutFor(user_model, model)));
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(own / "quark_config.json",
                                                 quantize::WriteQuarkJson(point.candidate.config)));
  }
  return absl::OkStatus();
}

void LogResult(const explore::Exploration& e, StepLog& log) {
  char text[200];
  std::snprintf(text, sizeof text,
                "candidate %d is the best: %d of %d compute layers promoted (%.1f %%), %d borders",
                e.best_row, e.promoted, e.compute_layers,
                e.compute_layers > 0 ? 100.0 * e.promoted / e.compute_layers : 0.0, e.borders);
  log.Info("Explore", text);
  log.Info("Explore", StrCat("the search ended: ", e.stop));
  std::snprintf(text, sizeof text,
                "%d full evaluations and %lld inferences of candidates in %.1f s",
                e.full_evaluations, static_cast<long long>(e.sample_runs), e.seconds.at("total"));
  log.Info("Explore", text);
  if (!e.promoted_layers.empty()) {
    log.Info("Explore", StrCat("promoted: ", base::StrJoin(e.promoted_layers, ", ")));
  }
  if (!e.limited_by.empty()) log.Info("Explore", StrCat("what limits it: ", e.limited_by));
}

}  // namespace

absl::Status CheckSearch(const gq::v1::JobSpec& spec) { return LimitsOf(spec).status(); }

absl::StatusOr<ExploreResult> RunExplore(const JobInputs& inputs,
                                         const GraphOptimizeResult& optimized,
                                         const ExploreStart& start, const ExploreFiles& files,
                                         const std::vector<explore::IterationRecord>& earlier,
                                         explore::Journal& journal, StepLog& log) {
  GQ_ASSIGN_OR_RETURN(
      const Strategy strategy,
      ChooseStrategy(inputs.spec, optimized.user_model, optimized.task, &optimized.float_model));
  GQ_RETURN_IF_ERROR(RefuseScheme(strategy.config));
  GQ_ASSIGN_OR_RETURN(const explore::Limits limits, LimitsOf(inputs.spec));
  GQ_ASSIGN_OR_RETURN(const quantize::MixedForm form, MixedFormOf(inputs.spec));
  base::NullReporter quiet;
  GQ_ASSIGN_OR_RETURN(const SampleData calibration,
                      OpenCalibrationData(inputs, optimized.float_model, quiet));
  GQ_ASSIGN_OR_RETURN(const SampleData evaluation,
                      OpenEvaluationData(inputs, optimized.float_model, log));
  GQ_ASSIGN_OR_RETURN(const accuracy::EvaluateOptions options,
                      EvaluateOptionsOf(inputs, optimized.task));
  const quantize::ModelOrigin origin = {&optimized.user_model.graph(), optimized.renamed_nodes};
  // Integers of a recovered model stand for a float model that the passes edited; they are repeated
  // to have it. The same inputs give the same model.
  quantize::RecoverySource source{optimized.float_model, strategy.config};
  graph::Model recovered = start.quantized;
  const explore::StrategyKind kind = StrategyOf(inputs.spec);
  if (start.source != nullptr) {
    source = *start.source;
  } else if (kind == explore::StrategyKind::kSensitivity && !strategy.recover.passes.empty() &&
             !calibration.samples->random()) {
    quantize::QuantizeInputs quantize_inputs;
    quantize_inputs.origin = &origin;
    quantize_inputs.allow_nonfinite = inputs.spec.allow_nonfinite();
    GQ_ASSIGN_OR_RETURN(
        quantize::QuantizeResult again,
        quantize::QuantizeWithRecovery(optimized.float_model, strategy.config, strategy.recover,
                                       *calibration.samples, quiet, quantize_inputs, &source));
    recovered = std::move(again.model);
  }
  const explore::Problem problem{
      .float_model = optimized.float_model,
      .config = strategy.config,
      .recover = strategy.recover,
      .origin = &origin,
      .start = recovered,
      .source = source.model,
      .source_config = source.config,
      .start_report = start.quantize_report,
      .calibration = *calibration.samples,
      .evaluation = *evaluation.samples,
      .evaluate = options,
      .limits = limits,
      .form = form,
      .allow_nonfinite = inputs.spec.allow_nonfinite(),
      .threads = inputs.Threads(),
      .start_figures = explore::FiguresOfReport(start.evaluate_report, options.targets)};
  log.Info("Explore", StrCat("strategy ", kind == explore::StrategyKind::kGreedy
                                              ? "greedy: one layer at a time, by dynamic range"
                                              : "sensitivity: regions by measured damage"));
  GQ_ASSIGN_OR_RETURN(const explore::Exploration e,
                      explore::Explore(problem, kind, earlier, journal, log));
  LogResult(e, log);

  ExploreResult result;
  GQ_RETURN_IF_ERROR(
      graph::SaveModel(e.best.model, files.model, LayoutFor(optimized.user_model, files.model)));
  GQ_RETURN_IF_ERROR(WriteIterations(e, optimized.user_model, files.iterations));
  result.config_json = quantize::WriteQuarkJson(e.best.config);
  result.report = explore::ExplorationJson(e, problem, kind);

  json quantized = e.best.report;
  MarkPromoted(e,
               limits.precision == onnx::TensorProto::FLOAT16 ? "float16"
               : limits.precision == onnx::TensorProto::FLOAT ? "float32"
                                                              : "bfloat16",
               &quantized);
  quantized["strategy"] = strategy.sentences;
  quantized["engine"] = "native";
  quantized["config"] = json::parse(result.config_json, nullptr, false);
  const int64_t float_bytes = FileBytes(inputs.model, optimized.user_model);
  const int64_t quantized_bytes = FileBytes(files.model, e.best.model);
  quantized["sizes"]["float_bytes"] = float_bytes;
  quantized["sizes"]["quantized_bytes"] = quantized_bytes;
  quantized["sizes"]["ratio_file"] =
      static_cast<double>(float_bytes) / static_cast<double>(quantized_bytes);
  json evaluated = start.evaluate_report;
  if (e.evaluation) {
    evaluated = accuracy::EvaluationJson(*e.evaluation);
    evaluated["data"]["source"] = evaluation.source;
    GQ_ASSIGN_OR_RETURN(evaluated["data"]["digest"], evaluation.samples->Digest());
    LogVerdict(e.evaluation->verdict, log);
    for (const accuracy::OutputReport& output : e.evaluation->outputs) {
      log.Info("Explore", accuracy::SummaryLine(output));
    }
  }
  result.verdict = !e.figures.judged    ? gq::v1::VERDICT_NOT_JUDGED
                   : e.figures.goal_met ? gq::v1::VERDICT_GOAL_MET
                                        : gq::v1::VERDICT_GOAL_NOT_MET;
  result.report["result"] = {{"graph_quantize", std::move(quantized)},
                             {"evaluate", std::move(evaluated)}};
  result.report["warnings"] = log.warnings();
  return result;
}

gq::v1::Iteration ToIteration(const explore::IterationRecord& record, int step_index) {
  gq::v1::Iteration iteration;
  iteration.set_number(record.number);
  iteration.set_step_index(step_index);
  iteration.set_kind(record.kind);
  iteration.set_candidate(record.candidate);
  iteration.set_decision(record.decision);
  for (const auto& [name, value] : record.metrics) (*iteration.mutable_metrics())[name] = value;
  iteration.set_config_json(record.config_json);
  iteration.set_seconds(record.seconds);
  iteration.set_resume_state(record.state);
  return iteration;
}

explore::IterationRecord FromIteration(const gq::v1::Iteration& iteration) {
  return {.number = iteration.number(),
          .kind = iteration.kind(),
          .candidate = iteration.candidate(),
          .decision = iteration.decision(),
          .metrics = {iteration.metrics().begin(), iteration.metrics().end()},
          .config_json = iteration.config_json(),
          .seconds = iteration.seconds(),
          .state = iteration.resume_state()};
}

}  // namespace gq::worker
