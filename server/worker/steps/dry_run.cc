#include "server/worker/steps/dry_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "common/accuracy/evaluate.h"
#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/explore.h"
#include "common/explore/recommendation.h"
#include "common/graph/analysis.h"
#include "common/quantize/quantize.h"
#include "common/quantize/recover/recover.h"
#include "common/quantize/reduced_precision.h"
#include "server/worker/steps/evaluate.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/stopwatch.h"
#include "server/worker/steps/strategy.h"
#include "server/worker/steps/transformer.h"

namespace gq::worker {
namespace {

using accuracy::Evaluation;
using base::StrCat;
using nlohmann::json;

std::string Fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void LogRow(const char* name, const std::string& output, const std::string& psnr,
            const std::string& pass_rate, const std::string& cosine, const std::string& top1,
            StepLog& log) {
  char text[160];
  std::snprintf(text, sizeof text, "%-10s  %10s  %10s  %10s  %8s  ", name, psnr.c_str(),
                pass_rate.c_str(), cosine.c_str(), top1.c_str());
  log.Info("DryRun", StrCat(text, output));
}

void LogTable(const char* name, const Evaluation& evaluation, StepLog& log) {
  for (const accuracy::OutputReport& output : evaluation.outputs) {
    const accuracy::OutputFigures& f = output.figures;
    LogRow(name, output.name, Fixed(f.psnr_db, 2), Fixed(f.pass_rate, 2), Fixed(f.cosine, 6),
           output.classes ? Fixed(output.classes->agreement, 2) : "-", log);
  }
}

json CandidateJson(const char* name, const Evaluation& evaluation, double seconds) {
  json part = accuracy::EvaluationJson(evaluation);
  for (json& output : part["outputs"]) output.erase("scatter");
  return {{"name", name},
          {"outputs", std::move(part["outputs"])},
          {"verdict", std::move(part["verdict"])},
          {"seconds", seconds}};
}

double TotalSeconds(const json& report) {
  const json seconds = report.value("seconds", json::object());
  double total = 0;
  for (const auto& [phase, value] : seconds.items()) {
    if (value.is_number() && phase != "total") total += value.get<double>();
  }
  return total;
}

double Phase(const json& report, const char* phase) {
  return report.value("seconds", json::object()).value(phase, 0.0);
}

json EstimateJson(const explore::CostMeasures& measures, StepLog& log) {
  const explore::CostEstimate cost = explore::EstimateCost(measures);
  log.Info("DryRun",
           StrCat("a full run would take about ", Fixed(cost.full_run, 1),
                  " s to the end of Evaluate; a search about ", Fixed(cost.sensitivity, 1),
                  " s (sensitivity) or ", Fixed(cost.greedy_least, 1), " to ",
                  Fixed(cost.greedy_most, 1), " s (greedy), as measured here"));
  return {{"full_run_seconds", cost.full_run},
          {"sensitivity_seconds", cost.sensitivity},
          {"greedy_seconds", {cost.greedy_least, cost.greedy_most}},
          {"measured",
           {{"optimize", measures.optimize},
            {"quantize", measures.quantize},
            {"requantize", measures.requantize},
            {"recovery", measures.recovery},
            {"evaluate", measures.evaluate}}}};
}

}  // namespace

absl::StatusOr<json> RunDryRun(const JobInputs& inputs, const GraphOptimizeResult& optimized,
                               StepLog& log) {
  Stopwatch watch;
  JobInputs int8 = inputs;
  if (int8.spec.scheme() == "bf16" || int8.spec.scheme() == "fp16") int8.spec.set_scheme("vint8");
  GQ_ASSIGN_OR_RETURN(Strategy strategy, ChooseStrategy(int8.spec, optimized.user_model,
                                                        optimized.task, &optimized.float_model));
  strategy.recover.threads = inputs.Threads();
  for (const std::string& sentence : strategy.sentences) log.Info("Strategy", sentence);
  GQ_ASSIGN_OR_RETURN(const SampleData calibration,
                      OpenCalibrationData(inputs, optimized.float_model, log));
  GQ_ASSIGN_OR_RETURN(const SampleData evaluation,
                      OpenEvaluationData(inputs, optimized.float_model, log));
  GQ_ASSIGN_OR_RETURN(const accuracy::EvaluateOptions options,
                      EvaluateOptionsOf(inputs, optimized.task));
  if (strategy.judge_residuals) {
    GQ_RETURN_IF_ERROR(KeepResidualStream(optimized.float_model, *calibration.samples,
                                          inputs.spec.allow_nonfinite(), log, strategy));
    log.Info("Strategy", strategy.sentences.back());
  }
  watch.Lap("prepare");

  const quantize::ModelOrigin origin = {&optimized.user_model.graph(), optimized.renamed_nodes};
  quantize::QuantizeInputs quantize_inputs;
  quantize_inputs.origin = &origin;
  quantize_inputs.allow_nonfinite = inputs.spec.allow_nonfinite();
  GQ_ASSIGN_OR_RETURN(
      const quantize::QuantizeResult quantized,
      quantize::QuantizeWithRecovery(optimized.float_model, strategy.config, strategy.recover,
                                     *calibration.samples, log, quantize_inputs));
  watch.Lap("quantize");

  GQ_ASSIGN_OR_RETURN(accuracy::Baseline baseline,
                      accuracy::Baseline::Create(optimized.float_model));
  GQ_ASSIGN_OR_RETURN(
      const quantize::ReducedPrecision bf16,
      quantize::ReducedPrecisionReference(optimized.float_model, onnx::TensorProto::BFLOAT16));
  GQ_ASSIGN_OR_RETURN(const Evaluation in_bf16,
                      accuracy::Evaluate(baseline, bf16.model, *evaluation.samples, options, log));
  watch.Lap("evaluate_bf16");
  GQ_ASSIGN_OR_RETURN(const graph::Model shown, quantize::AsOnDevice(quantized.model));
  GQ_ASSIGN_OR_RETURN(const Evaluation in_int8,
                      accuracy::Evaluate(baseline, shown, *evaluation.samples, options, log));
  watch.Lap("evaluate_vint8");

  LogRow("precision", "output", "PSNR dB", "pass %", "cosine", "top-1 %", log);
  for (const accuracy::OutputReport& output : in_int8.outputs) {
    LogRow("FP32", output.name, "inf", "100.00", "1.000000", output.classes ? "100.00" : "-", log);
  }
  LogTable("BF16", in_bf16, log);
  LogTable("VINT8", in_int8, log);
  const explore::Choice choice = explore::Recommend(in_bf16.verdict.result, in_int8.verdict.result);
  log.Info("DryRun", StrCat("BF16: ", in_bf16.verdict.reason));
  log.Info("DryRun", StrCat("VINT8: ", in_int8.verdict.reason));
  const std::string text = explore::RecommendationText(choice);
  log.Info("DryRun", StrCat("recommendation: ", text));

  const json seconds = watch.Seconds();
  const explore::Limits limits;
  explore::CostMeasures measures;
  measures.compute_layers =
      static_cast<int>(graph::ComputeLayers(optimized.float_model.graph()).size());
  measures.most_promotions = limits.MostPromotions(measures.compute_layers);
  measures.most_iterations = limits.MostIterations(measures.compute_layers);
  measures.optimize = TotalSeconds(optimized.report);
  measures.recovery = quantized.report.value("recovery", json::object()).value("seconds", 0.0);
  measures.quantize = seconds.value("quantize", 0.0) - measures.recovery;
  measures.requantize =
      std::max(0.0, TotalSeconds(quantized.report) - Phase(quantized.report, "calibration"));
  measures.evaluate = seconds.value("evaluate_vint8", 0.0);
  measures.inference = in_int8.candidate_seconds / static_cast<double>(in_int8.samples);

  json report = {{"candidates",
                  {CandidateJson("BF16", in_bf16, seconds.value("evaluate_bf16", 0.0)),
                   CandidateJson("VINT8", in_int8, seconds.value("evaluate_vint8", 0.0))}},
                 {"recommendation", {{"choice", explore::ChoiceName(choice)}, {"text", text}}},
                 {"data", {{"samples", in_int8.samples}, {"source", evaluation.source}}},
                 {"task", graph::TaskTypeName(optimized.task)}};
  report["estimate"] = EstimateJson(measures, log);
  report["warnings"] = log.warnings();
  report["seconds"] = seconds;
  return report;
}

}  // namespace gq::worker
