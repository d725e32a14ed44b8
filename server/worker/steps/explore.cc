#include "server/worker/steps/explore.h"

#include <cstdio>
#include <functional>
#include <set>
#include <utility>

#include "common/accuracy/evaluation_json.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/explore.h"
#include "common/explore/limits.h"
#include "common/explore/promotion.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/recover/recovery_source.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/mixed_layers.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/strategy.h"
#include "server/worker/steps/transformer.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

explore::StrategyKind StrategyOf(const gq::v1::JobSpec& spec) {
  return spec.explore_strategy() == "sensitivity" ? explore::StrategyKind::kSensitivity
                                                  : explore::StrategyKind::kGreedy;
}

// What the device computes promoted layers in (engine.md 10): the next wider form that it has.
absl::StatusOr<explore::Limits> LimitsOf(const gq::v1::JobSpec& spec) {
  GQ_ASSIGN_OR_RETURN(explore::Limits limits, explore::ParseLimits({spec.explore_limit().begin(),
                                                                    spec.explore_limit().end()}));
  for (const std::string& limit : spec.explore_limit()) {
    if (limit.starts_with("precision=")) return limits;
  }
  const std::string scheme = spec.scheme().empty() ? DefaultScheme(spec.device()) : spec.scheme();
  if (scheme == "W4-A8_dynamic") {
    limits.precision = onnx::TensorProto::INT8;
  } else if (spec.device().starts_with("ethos-u") && scheme == "W8-A8") {
    limits.precision = onnx::TensorProto::INT16;
  } else if (spec.device().starts_with("xnnpack") || spec.device().starts_with("ethos-u")) {
    limits.precision = onnx::TensorProto::FLOAT;
  } else {
    GQ_ASSIGN_OR_RETURN(limits.precision, PrecisionOfLayers(spec));
  }
  return limits;
}

absl::Status RefuseScheme(const quantize::QuantizeConfig& config, const explore::Limits& limits,
                          explore::StrategyKind kind) {
  const auto refuse = [&](std::string_view why, std::string_view hint) {
    return base::MakeError(base::Reason::kSchemeIllegal, StrCat("the scheme ", config.scheme, why),
                           hint);
  };
  const auto integer = [](quantize::ElementType type) {
    return type == onnx::TensorProto::INT8 || type == onnx::TensorProto::UINT8 ||
           type == onnx::TensorProto::INT16 || type == onnx::TensorProto::UINT16;
  };
  if (!integer(config.activation.type)) {
    return refuse(" has no layers with integers that could be promoted",
                  "explore from vint8, xint8 or one of the W schemes");
  }
  const bool dynamic = config.dynamic != quantize::DynamicForm::kNone;
  if (dynamic && kind == explore::StrategyKind::kSensitivity) {
    return refuse(" finds its ranges at run time, which the strategy sensitivity cannot measure",
                  "use --explore-strategy greedy");
  }
  const bool blocks = config.dynamic == quantize::DynamicForm::kInt4Blocks;
  if (limits.precision == onnx::TensorProto::INT8 && !blocks) {
    return refuse(" has no int4 weights that could become int8",
                  "--explore-limit precision=FP32, or the scheme W4-A8_dynamic");
  }
  const bool wide = config.activation.type == onnx::TensorProto::INT16 ||
                    config.activation.type == onnx::TensorProto::UINT16;
  if (limits.precision == onnx::TensorProto::INT16 && (dynamic || wide)) {
    return refuse(" has no int8 activations with fixed ranges that could become int16",
                  "--explore-limit precision=FP32, or the scheme W8-A8");
  }
  if (dynamic && limits.precision != onnx::TensorProto::FLOAT &&
      limits.precision != onnx::TensorProto::INT8) {
    return refuse(" finds its ranges at run time; beside it layers are in float32",
                  "--explore-limit precision=FP32");
  }
  return absl::OkStatus();
}

// The precision of every node of a candidate, and which row promoted it.
void MarkPromoted(const explore::Candidate& candidate, int row, int32_t type, json* quantize) {
  const std::set<std::string> nodes(candidate.nodes.begin(), candidate.nodes.end());
  const int bits = graph::BitsPerElement(type);
  if (!quantize->contains("layers")) return;
  for (json& layer : (*quantize)["layers"]) {
    if (!nodes.contains(layer.value("node", ""))) continue;
    layer["precision"] = graph::DTypeName(type);
    if (type != onnx::TensorProto::INT8) layer["activation_bits"] = bits;
    if (type != onnx::TensorProto::INT16) layer["weight_bits"] = bits;
    layer["reason"] = StrCat("promotion ", row);
  }
}

// Files of the Pareto set. `describe` gives the part of the report about one of its models, which a
// board may choose in place of the best (docs/exploration.md).
absl::Status WriteIterations(
    const explore::Exploration& e, const graph::Model& user_model, const fs::path& folder,
    const std::function<json(const explore::Candidate&, int row, const fs::path& file)>& describe) {
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
    const json parts = {{"graph_quantize", describe(point.candidate, point.number, model)}};
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(
        own / "report.json", parts.dump(2, ' ', false, json::error_handler_t::replace)));
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
  GQ_ASSIGN_OR_RETURN(Strategy strategy, ChooseStrategy(inputs.spec, optimized.user_model,
                                                        optimized.task, &optimized.float_model));
  strategy.recover.threads = inputs.Threads();
  if (strategy.config.promotion) explore::Promote(*strategy.config.promotion, &strategy.config);
  strategy.config.promotion.reset();
  GQ_ASSIGN_OR_RETURN(const explore::Limits limits, LimitsOf(inputs.spec));
  const explore::StrategyKind kind = StrategyOf(inputs.spec);
  GQ_RETURN_IF_ERROR(RefuseScheme(strategy.config, limits, kind));
  GQ_ASSIGN_OR_RETURN(const quantize::MixedForm form, MixedFormOf(inputs.spec));
  base::NullReporter quiet;
  GQ_ASSIGN_OR_RETURN(const SampleData calibration,
                      OpenCalibrationData(inputs, optimized.float_model, quiet));
  GQ_ASSIGN_OR_RETURN(const SampleData evaluation,
                      OpenEvaluationData(inputs, optimized.float_model, log));
  GQ_ASSIGN_OR_RETURN(const accuracy::EvaluateOptions options,
                      EvaluateOptionsOf(inputs, optimized.task));
  if (strategy.judge_residuals) {
    GQ_RETURN_IF_ERROR(KeepResidualStream(optimized.float_model, *calibration.samples,
                                          inputs.spec.allow_nonfinite(), log, strategy));
  }
  const quantize::ModelOrigin origin = {&optimized.user_model.graph(), optimized.renamed_nodes};
  // Integers of a recovered model stand for a float model that the passes edited; they are repeated
  // to have it. The same inputs give the same model.
  quantize::RecoverySource source{optimized.float_model, strategy.config};
  graph::Model recovered = start.quantized;
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
  // The part `graph_quantize` about a candidate.
  const auto describe = [&](const explore::Candidate& candidate, int row, const fs::path& file) {
    json quantized = candidate.report;
    MarkPromoted(candidate, row, limits.precision, &quantized);
    quantized["strategy"] = strategy.sentences;
    quantized["engine"] = "native";
    quantized["config"] = json::parse(quantize::WriteQuarkJson(candidate.config), nullptr, false);
    const int64_t float_bytes = FileBytes(inputs.model, optimized.user_model);
    const int64_t quantized_bytes = FileBytes(file, candidate.model);
    quantized["sizes"]["float_bytes"] = float_bytes;
    quantized["sizes"]["quantized_bytes"] = quantized_bytes;
    quantized["sizes"]["ratio_file"] =
        static_cast<double>(float_bytes) / static_cast<double>(quantized_bytes);
    return quantized;
  };
  GQ_RETURN_IF_ERROR(WriteIterations(e, optimized.user_model, files.iterations, describe));
  result.config_json = quantize::WriteQuarkJson(e.best.config);
  result.report = explore::ExplorationJson(e, problem, kind);

  json quantized = describe(e.best, e.best_row, files.model);
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
