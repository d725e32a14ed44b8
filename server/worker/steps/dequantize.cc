#include "server/worker/steps/dequantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/dequantize/dequantize.h"
#include "common/quantize/reduced_precision.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/stopwatch.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

constexpr int64_t kFidelitySamples = 32;

json OutputJson(const accuracy::OutputReport& output) {
  json part = {{"name", output.name},
               {"psnr_db", accuracy::JsonNumber(output.figures.psnr_db)},
               {"snr_db", accuracy::JsonNumber(output.figures.snr_db)},
               {"cosine", accuracy::JsonNumber(output.figures.cosine)},
               {"pass_rate", accuracy::JsonNumber(output.figures.pass_rate)},
               {"max_abs", accuracy::JsonNumber(output.figures.max_abs)}};
  if (output.classes) {
    part["argmax_agreement"] = accuracy::JsonNumber(output.classes->agreement);
  }
  return part;
}

std::string Decibel(double value) {
  if (std::isinf(value)) return value > 0 ? "equal" : "-inf dB";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f dB", value);
  return text;
}

// Both models on the same samples; an error says why they could not be compared.
absl::StatusOr<json> Fidelity(const JobInputs& inputs, const graph::Model& quantized,
                              const graph::Model& stripped, StepLog& log) {
  GQ_ASSIGN_OR_RETURN(const SampleData data, OpenEvaluationData(inputs, stripped, log));
  accuracy::EvaluateOptions options;
  options.parallel_samples = inputs.Threads();
  options.only.resize(std::min(data.samples->size(), kFidelitySamples));
  std::iota(options.only.begin(), options.only.end(), 0);
  base::NullReporter quiet;
  GQ_ASSIGN_OR_RETURN(const accuracy::Evaluation evaluation,
                      accuracy::Evaluate(quantized, stripped, *data.samples, options, quiet));
  json outputs = json::array();
  for (const accuracy::OutputReport& output : evaluation.outputs) {
    outputs.push_back(OutputJson(output));
    log.Info("Dequantize", StrCat("against the quantized model, ", accuracy::SummaryLine(output)));
  }
  return json{
      {"samples", evaluation.samples}, {"source", data.source}, {"outputs", std::move(outputs)}};
}

graph::SaveOptions LayoutOf(const graph::Model& model, const fs::path& output) {
  graph::SaveOptions options;
  options.layout = model.layout();
  if (options.layout == graph::DataLayout::kExternalFile) {
    options.external_file = output.filename().string() + ".data";
  }
  return options;
}

// Quantizers write what the checker refuses and runtimes take (an axis before opset 13). The
// stripped model is checked in any case.
absl::StatusOr<graph::Model> LoadQuantized(const fs::path& path, StepLog& log) {
  auto model = graph::LoadModel(path);
  if (model.ok() || base::GetReason(model.status()) != base::Reason::kModelInvalid) return model;
  graph::LoadOptions unchecked;
  unchecked.check = false;
  auto again = graph::LoadModel(path, unchecked);
  if (!again.ok() || graph::StateOf(again->graph()) == graph::ModelState::kFloat) return model;
  log.Warn("Load", StrCat("the quantized model is taken although ",
                          base::FromAbsl(model.status().message())));
  return again;
}

std::string Signed(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%+.2f %s", value, unit);
  return text;
}

std::string Percent(double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f %%", value);
  return text;
}

// Of two figures of the same output, in the order that decides: agreement of classes, then PSNR.
struct Worst {
  double agreement = 100;
  double psnr = std::numeric_limits<double>::infinity();
};

Worst WorstOf(const accuracy::Evaluation& evaluation) {
  Worst worst;
  for (const accuracy::OutputReport& output : evaluation.outputs) {
    if (!output.is_float) continue;
    worst.psnr = std::min(worst.psnr, output.figures.psnr_db);
    if (output.classes) worst.agreement = std::min(worst.agreement, output.classes->agreement);
  }
  return worst;
}

// 0.05 dB lie within the noise of repeated runs on other data.
constexpr double kLeastGain = 0.05;

json Comparison(const accuracy::Evaluation& before, const accuracy::Evaluation& after,
                StepLog& log) {
  json outputs = json::array();
  for (const accuracy::OutputReport& output : after.outputs) {
    const auto same =
        std::find_if(before.outputs.begin(), before.outputs.end(),
                     [&](const auto& candidate) { return candidate.name == output.name; });
    if (same == before.outputs.end()) continue;
    const double delta = output.figures.psnr_db - same->figures.psnr_db;
    json part = {{"name", output.name},
                 {"old", OutputJson(*same)},
                 {"new", OutputJson(output)},
                 {"psnr_delta_db", accuracy::JsonNumber(std::isnan(delta) ? 0 : delta)}};
    std::string line = StrCat("output '", output.name, "': PSNR ", Decibel(same->figures.psnr_db),
                              " -> ", Decibel(output.figures.psnr_db));
    if (std::isfinite(delta)) base::StrAppend(&line, " (", Signed(delta, "dB"), ")");
    if (output.classes && same->classes) {
      const double change = output.classes->agreement - same->classes->agreement;
      part["agreement_delta"] = change;
      base::StrAppend(&line, ", top-1 agreement ", Percent(same->classes->agreement), " -> ",
                      Percent(output.classes->agreement));
      if (output.classes->labelled > 0 && same->classes->labelled > 0) {
        part["top1_delta"] = output.classes->top1 - same->classes->top1;
        base::StrAppend(&line, ", top-1 ", Percent(same->classes->top1), " -> ",
                        Percent(output.classes->top1));
      }
    }
    log.Info("Requantize", line);
    outputs.push_back(std::move(part));
  }
  const Worst old_worst = WorstOf(before);
  const Worst new_worst = WorstOf(after);
  const bool classes = old_worst.agreement != new_worst.agreement;
  const bool improved = classes ? new_worst.agreement > old_worst.agreement
                                : new_worst.psnr > old_worst.psnr + kLeastGain;
  char text[160];
  if (classes) {
    std::snprintf(text, sizeof text, "top-1 agreement %.2f %% -> %.2f %%", old_worst.agreement,
                  new_worst.agreement);
  } else {
    std::snprintf(text, sizeof text, "worst output %s -> %s", Decibel(old_worst.psnr).c_str(),
                  Decibel(new_worst.psnr).c_str());
  }
  return {{"outputs", std::move(outputs)}, {"improved", improved}, {"reason", text}};
}

}  // namespace

JobInputs InputsAfterStrip(JobInputs inputs, const fs::path& stripped) {
  inputs.quantized = std::exchange(inputs.model, stripped);
  return inputs;
}

absl::StatusOr<DequantizeResult> RunDequantize(const JobInputs& inputs, const fs::path& output,
                                               StepLog& log) {
  Stopwatch watch;
  GQ_ASSIGN_OR_RETURN(const graph::Model given, LoadQuantized(inputs.model, log));
  for (const std::string& note : given.notes()) log.Info("Load", note);
  const graph::Analysis analysis = graph::Analyze(given);
  log.Info("Analyze", DescribeModel(analysis));
  watch.Lap("load");

  DequantizeResult result;
  result.stripped = given;
  GQ_ASSIGN_OR_RETURN(const quantize::DequantizeReport done,
                      quantize::Dequantize(&result.stripped));
  for (const std::string& detail : done.details) log.Info("Dequantize", detail);
  for (const std::string& warning : done.warnings) log.Warn("Dequantize", warning);
  watch.Lap("strip");
  GQ_RETURN_IF_ERROR(graph::SaveModel(result.stripped, output, LayoutOf(given, output)));
  watch.Lap("write");

  json fidelity;
  const auto measured = [&]() -> absl::StatusOr<json> {
    GQ_ASSIGN_OR_RETURN(const graph::Model left, LoadStatic(inputs.model, inputs, log, false));
    GQ_ASSIGN_OR_RETURN(const graph::Model right, LoadStatic(output, inputs, log));
    return Fidelity(inputs, left, right, log);
  }();
  if (measured.ok()) {
    fidelity = *measured;
  } else {
    const std::string why(base::FromAbsl(measured.status().message()));
    log.Warn("Dequantize",
             StrCat("the stripped model was not compared with the quantized one: ", why));
    fidelity = {{"not_measured", why}};
  }
  watch.Lap("compare");

  const int64_t before = FileBytes(inputs.model, given);
  const int64_t after = FileBytes(output, result.stripped);
  char text[160];
  std::snprintf(text, sizeof text, "%.2f MB instead of %.2f MB", static_cast<double>(after) / 1e6,
                static_cast<double>(before) / 1e6);
  log.Info("Dequantize", StrCat(output.filename().string(), ": ", text));
  GQ_ASSIGN_OR_RETURN(json file, ModelFileJson(inputs.model, given));
  result.report = {{"model", std::move(file)},
                   {"before", AnalysisJson(analysis, given)},
                   {"stripped", {{"file", output.filename().string()}, {"bytes", after}}},
                   {"removed", done.removed},
                   {"replaced", done.replaced},
                   {"constants", done.constants},
                   {"clamps", done.clamps},
                   {"rescales", done.rescales},
                   {"hardware_factors", done.hardware_factors},
                   {"details", done.details},
                   {"fidelity", std::move(fidelity)},
                   {"note",
                    "weights keep the error of the quantization: the float model before it cannot "
                    "be had back"},
                   {"warnings", log.warnings()},
                   {"identity", IdentityJson(inputs.spec)},
                   {"seconds", watch.Seconds()}};
  return result;
}

absl::StatusOr<EvaluateResult> RunRequantizedEvaluate(const JobInputs& inputs,
                                                      const graph::Model& stripped_float,
                                                      const graph::Model& candidate,
                                                      graph::TaskType task, StepLog& log) {
  graph::Model reference = stripped_float;
  if (inputs.reference) {
    GQ_ASSIGN_OR_RETURN(reference, LoadStatic(*inputs.reference, inputs, log));
    log.Info("Requantize", "the reference is the FP32 model that was given");
  } else {
    log.Info("Requantize",
             "the reference is the stripped model, not the float model before the first "
             "quantization; give that one with --reference");
  }
  GQ_ASSIGN_OR_RETURN(EvaluateResult result, RunEvaluate(inputs, reference, candidate, task, log));
  json part = {{"reference", inputs.reference ? "given" : "stripped"}};
  const auto before = [&]() -> absl::StatusOr<accuracy::Evaluation> {
    GQ_ASSIGN_OR_RETURN(const graph::Model file, LoadStatic(*inputs.quantized, inputs, log, false));
    GQ_ASSIGN_OR_RETURN(const graph::Model old, quantize::AsOnDevice(file));
    GQ_ASSIGN_OR_RETURN(const accuracy::EvaluateOptions options, EvaluateOptionsOf(inputs, task));
    base::NullReporter quiet;
    GQ_ASSIGN_OR_RETURN(const SampleData data, OpenEvaluationData(inputs, reference, quiet));
    return accuracy::Evaluate(reference, old, *data.samples, options, quiet);
  }();
  if (before.ok()) {
    part.update(Comparison(*before, result.evaluation, log));
    const bool improved = part["improved"].get<bool>();
    log.Info("Requantize",
             StrCat(improved ? "improved: " : "not improved: ", part["reason"].get<std::string>()));
  } else {
    const std::string why(base::FromAbsl(before.status().message()));
    part["not_compared"] = why;
    log.Warn("Requantize", StrCat("the model as it was given could not be measured: ", why));
  }
  result.report["requantize"] = std::move(part);
  result.report["warnings"] = log.warnings();
  return result;
}

}  // namespace gq::worker
