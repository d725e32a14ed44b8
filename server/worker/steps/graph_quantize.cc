#include "server/worker/steps/graph_quantize.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/promotion.h"
#include "common/quantize/quantize.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/resolved_config.h"
#include "common/quantize/settings.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/plugins.h"
#include "server/worker/steps/quark_engine.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/stopwatch.h"
#include "server/worker/steps/strategy.h"
#include "server/worker/steps/transformer.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

std::string Counts(const json& counts) {
  std::vector<std::string> parts;
  if (counts.is_object()) {
    for (const auto& [op, count] : counts.items()) parts.push_back(StrCat(op, " ", count.dump()));
  }
  return parts.empty() ? "none" : base::StrJoin(parts, ", ");
}

void LogResult(const json& report, const fs::path& output, int64_t float_bytes,
               int64_t quantized_bytes, StepLog& log) {
  for (const json& pass : report.value("passes", json::array())) {
    if (pass.value("changed", 0) == 0) continue;
    log.Info("Quantize", StrCat(pass.value("name", ""), ": ", pass.value("changed", 0),
                                " changed (", pass.value("summary", ""), ")"));
    for (const json& detail : pass.value("details", json::array())) {
      log.Log(base::LogLevel::kDebug, "Quantize", detail.get<std::string>());
    }
  }
  if (const auto counts = report.find("counts"); counts != report.end()) {
    log.Info("Quantize", StrCat("quantized: ", Counts(counts->value("quantized", json()))));
    log.Info("Quantize", StrCat("left in float: ", Counts(counts->value("float", json()))));
  }
  char text[160];
  std::snprintf(text, sizeof text, "%.2f MB instead of %.2f MB (%.2f times smaller)",
                static_cast<double>(quantized_bytes) / 1e6, static_cast<double>(float_bytes) / 1e6,
                static_cast<double>(float_bytes) / static_cast<double>(quantized_bytes));
  log.Info("Quantize", StrCat(output.filename().string(), ": ", text));
}

absl::StatusOr<SampleData> OpenData(const JobInputs& inputs, const GraphOptimizeResult& optimized,
                                    const quantize::QuantizeConfig& config, StepLog& log) {
  if (quantize::NeedsCalibration(config)) {
    return OpenCalibrationData(inputs, optimized.float_model, log);
  }
  log.Info("Calibrate",
           StrCat("no calibration: ",
                  config.dynamic == quantize::DynamicForm::kNone
                      ? "activations are floats without a range"
                      : "ranges of activations are found at run time",
                  inputs.calibration.empty() ? "" : "; the data that was given serves Evaluate"));
  return OpenTrialData(inputs, optimized.float_model);
}

// Recovery has run without the layers that are promoted now; its report stays.
absl::Status PromoteAfterRecovery(const quantize::Promotion& promotion, runtime::DataSet& data,
                                  StepLog& log, const quantize::QuantizeInputs& inputs,
                                  quantize::QuantizeResult* quantized,
                                  quantize::RecoverySource* source) {
  const json recovery = quantized->report.value("recovery", json());
  GQ_ASSIGN_OR_RETURN(*quantized,
                      explore::QuantizePromoted(quantized->model, source->model, source->config,
                                                promotion, data, log, inputs));
  if (!recovery.is_null()) quantized->report["recovery"] = recovery;
  explore::Promote(promotion, &source->config);
  return absl::OkStatus();
}

}  // namespace

graph::SaveOptions LayoutFor(const graph::Model& user_model, const fs::path& output) {
  graph::SaveOptions options;
  options.layout = user_model.layout();
  if (options.layout == graph::DataLayout::kExternalFile) {
    options.external_file = output.filename().string() + ".data";
  }
  return options;
}

absl::StatusOr<GraphQuantizeResult> RunGraphQuantize(const JobInputs& inputs,
                                                     const GraphOptimizeResult& optimized,
                                                     const fs::path& output, StepLog& log) {
  Stopwatch watch;
  GQ_ASSIGN_OR_RETURN(Strategy strategy, ChooseStrategy(inputs.spec, optimized.user_model,
                                                        optimized.task, &optimized.float_model));
  strategy.recover.threads = inputs.Threads();
  for (const std::string& sentence : strategy.sentences) log.Info("Strategy", sentence);
  for (const std::string& warning : strategy.warnings) log.Warn("Config", warning);
  GQ_ASSIGN_OR_RETURN(const SampleData data, OpenData(inputs, optimized, strategy.config, log));
  if (strategy.judge_residuals) {
    GQ_RETURN_IF_ERROR(KeepResidualStream(optimized.float_model, *data.samples,
                                          inputs.spec.allow_nonfinite(), log, strategy));
    log.Info("Strategy", strategy.sentences.back());
  }
  watch.Lap("prepare");
  if (inputs.spec.engine() == "quark") {
    return RunQuarkQuantize(inputs, optimized, strategy, data, output, log);
  }

  const quantize::ModelOrigin origin = {&optimized.user_model.graph(), optimized.renamed_nodes};
  quantize::QuantizeInputs quantize_inputs;
  quantize_inputs.origin = &origin;
  quantize_inputs.allow_nonfinite = inputs.spec.allow_nonfinite();
  quantize::QuantizeConfig before_promotion = strategy.config;
  before_promotion.promotion.reset();
  quantize::RecoverySource source;
  GQ_ASSIGN_OR_RETURN(
      quantize::QuantizeResult quantized,
      quantize::QuantizeWithRecovery(optimized.float_model, before_promotion, strategy.recover,
                                     *data.samples, log, quantize_inputs, &source));
  if (strategy.config.promotion) {
    GQ_RETURN_IF_ERROR(PromoteAfterRecovery(*strategy.config.promotion, *data.samples, log,
                                            quantize_inputs, &quantized, &source));
  }
  watch.Lap("quantize");

  GQ_RETURN_IF_ERROR(
      graph::SaveModel(quantized.model, output, LayoutFor(optimized.user_model, output)));
  GraphQuantizeResult result;
  result.source = std::move(source);
  const absl::Status gate = [&]() -> absl::Status {
    graph::LoadOptions as_it_is;
    as_it_is.check = as_it_is.normalize = false;
    GQ_ASSIGN_OR_RETURN(result.emitted, graph::LoadModel(output, as_it_is));
    // The quantizer has checked and run the same model in memory.
    if (result.emitted.Digest() == quantized.model.Digest()) return absl::OkStatus();
    return base::MakeError(base::Reason::kSanityCheckFailed,
                           "it holds another model than the one that was quantized");
  }();
  if (!gate.ok()) {
    std::error_code ignored;
    fs::remove(output, ignored);
    if (!result.emitted.external_file().empty()) {
      fs::remove(output.parent_path() / result.emitted.external_file(), ignored);
    }
    return base::AddContext(gate, "the file that was written");
  }
  watch.Lap("write");
  GQ_ASSIGN_OR_RETURN(const json plugins, ApplyPlugins(harness::PluginStage::kQuantized,
                                                       inputs.spec, output, output, log));
  if (!plugins.empty()) {
    GQ_ASSIGN_OR_RETURN(result.emitted, graph::LoadModel(output));
    watch.Lap("plugins");
  }

  GQ_ASSIGN_OR_RETURN(const quantize::QuantizeConfig resolved,
                      quantize::ResolvedConfig(strategy.config, optimized.float_model, &origin));
  result.config_json = quantize::WriteQuarkJson(resolved);
  result.report = std::move(quantized.report);
  result.report["strategy"] = strategy.sentences;
  result.report["engine"] = "native";
  result.report["config"] = json::parse(result.config_json, nullptr, false);
  if (quantize::NeedsCalibration(strategy.config)) {
    result.report["calibration"]["source"] = data.source;
  }
  result.report["sanity"]["file_identical"] = plugins.empty();
  if (!plugins.empty()) result.report["plugins"] = plugins;
  const int64_t float_bytes = FileBytes(inputs.model, optimized.user_model);
  const int64_t quantized_bytes = FileBytes(output, result.emitted);
  result.report["sizes"]["float_bytes"] = float_bytes;
  result.report["sizes"]["quantized_bytes"] = quantized_bytes;
  result.report["sizes"]["ratio_file"] =
      static_cast<double>(float_bytes) / static_cast<double>(quantized_bytes);
  LogResult(result.report, output, float_bytes, quantized_bytes, log);
  result.report["warnings"] = log.warnings();
  result.report["seconds"].update(watch.Seconds());
  return result;
}

}  // namespace gq::worker
