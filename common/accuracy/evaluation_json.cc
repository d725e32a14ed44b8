#include "common/accuracy/evaluation_json.h"

#include <cmath>
#include <cstdio>

#include "common/base/text.h"

namespace gq::accuracy {
namespace {

using nlohmann::json;

json Goals(const Verdict& verdict) {
  json goals = json::array();
  for (const GoalResult& goal : verdict.goals) {
    goals.push_back({{"expression", goal.expression},
                     {"value", JsonNumber(goal.value)},
                     {"output", goal.output},
                     {"met", goal.met}});
  }
  return goals;
}

json VerdictJson(const Verdict& verdict) {
  return {{"result", VerdictResultName(verdict.result)},
          {"default_goal", verdict.default_goal},
          {"reason", verdict.reason},
          {"goals", Goals(verdict)},
          {"default",
           {{"result", VerdictResultName(verdict.default_judgement.result)},
            {"reason", verdict.default_judgement.reason}}}};
}

json OutputJson(const OutputReport& output) {
  const OutputFigures& f = output.figures;
  json j = {
      {"name", output.name},
      {"dtype", output.dtype},
      {"shape", output.shape},
      {"elements", f.elements},
      {"snr_db", JsonNumber(f.snr_db)},
      {"psnr_db", JsonNumber(f.psnr_db)},
      {"cosine", JsonNumber(f.cosine)},
      {"mse", JsonNumber(f.mse)},
      {"mae", JsonNumber(f.mae)},
      {"max_abs", JsonNumber(f.max_abs)},
      {"max_relative", JsonNumber(f.max_relative)},
      {"mean_relative", JsonNumber(f.mean_relative)},
      {"pass_rate", JsonNumber(f.pass_rate)},
      {"pass_rate_decides", output.PassRateDecides()},
      {"quantization_step", JsonNumber(output.quantization_step)},
      {"percentile_max", JsonNumber(f.percentile_max)},
      {"range",
       {{"reference", {JsonNumber(f.min_reference), JsonNumber(f.max_reference)}},
        {"candidate", {JsonNumber(f.min_candidate), JsonNumber(f.max_candidate)}}}},
      {"worst", {{"sample", f.worst_sample}, {"element", f.worst_element}}},
      {"nonfinite", {{"reference", f.nonfinite_reference}, {"candidate", f.nonfinite_candidate}}}};
  // A constant output has no kurtosis.
  if (!std::isnan(f.kurtosis_ratio)) j["kurtosis_ratio"] = JsonNumber(f.kurtosis_ratio);
  if (f.sample_psnr_min_index >= 0) {
    j["sample_psnr_db"] = {{"mean", JsonNumber(f.sample_psnr_mean_db)},
                           {"min", JsonNumber(f.sample_psnr_min_db)},
                           {"min_sample", f.sample_psnr_min_index}};
  }
  if (output.classes) {
    const ClassFigures& c = *output.classes;
    j["argmax_agreement"] = JsonNumber(c.agreement);
    j["top5_agreement"] = JsonNumber(c.top5_agreement);
    j["rows"] = c.rows;
    j["kl"] = JsonNumber(c.kl);
    if (c.labelled > 0) {
      j["labelled"] = c.labelled;
      j["top1"] = JsonNumber(c.top1);
      j["top5"] = JsonNumber(c.top5);
      j["fp32_top1"] = JsonNumber(c.reference_top1);
      j["fp32_top5"] = JsonNumber(c.reference_top5);
    }
  } else if (output.is_float && !std::isnan(f.kl)) {
    j["kl"] = JsonNumber(f.kl);
  }
  json scatter = json::array();
  for (const ScatterPoint& point : output.scatter) {
    scatter.push_back({JsonNumber(point.reference), JsonNumber(point.candidate)});
  }
  j["scatter"] = std::move(scatter);
  return j;
}

}  // namespace

json JsonNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json EvaluationJson(const Evaluation& evaluation) {
  json outputs = json::array();
  const ClassFigures* classes = nullptr;  // of the output with the least agreement
  for (const OutputReport& output : evaluation.outputs) {
    outputs.push_back(OutputJson(output));
    if (output.classes && (classes == nullptr || output.classes->agreement < classes->agreement)) {
      classes = &*output.classes;
    }
  }
  json j = {{"data", {{"samples", evaluation.samples}, {"skipped", evaluation.skipped}}},
            {"task", graph::TaskTypeName(evaluation.task)},
            {"outputs", std::move(outputs)},
            {"verdict", VerdictJson(evaluation.verdict)},
            {"warnings", evaluation.warnings},
            {"seconds",
             {{"sessions", evaluation.session_seconds},
              {"reference", evaluation.reference_seconds},
              {"candidate", evaluation.candidate_seconds},
              {"total", evaluation.seconds}}}};
  if (classes != nullptr) {
    j["top1_agreement"] = JsonNumber(classes->agreement);
    if (classes->labelled > 0) {
      j["top1"] = JsonNumber(classes->top1);
      j["top5"] = JsonNumber(classes->top5);
      j["fp32_top1"] = JsonNumber(classes->reference_top1);
      j["fp32_top5"] = JsonNumber(classes->reference_top5);
    }
  }
  if (evaluation.detection) {
    const DetectionFigures& d = *evaluation.detection;
    j["detection"] = {{"reference_boxes", d.reference_boxes},
                      {"candidate_boxes", d.candidate_boxes},
                      {"matched", d.matched},
                      {"mean_iou", JsonNumber(d.mean_iou)},
                      {"recall", JsonNumber(d.recall)},
                      {"precision", JsonNumber(d.precision)}};
  }
  return j;
}

std::string SummaryLine(const OutputReport& output) {
  const OutputFigures& f = output.figures;
  char text[256];
  std::string line = base::StrCat("output '", output.name, "': ");
  if (!output.is_float) {
    std::snprintf(text, sizeof text, "%.2f %% of the elements equal", f.pass_rate);
    return line + text;
  }
  if (output.classes) {
    const ClassFigures& c = *output.classes;
    std::snprintf(text, sizeof text, "top-1 agreement %.2f %% of %lld, ", c.agreement,
                  static_cast<long long>(c.rows));
    line += text;
    if (c.labelled > 0) {
      std::snprintf(text, sizeof text, "top-1 %.2f %% (FP32 %.2f %%), ", c.top1, c.reference_top1);
      line += text;
    }
  }
  std::snprintf(text, sizeof text, "PSNR %.2f dB, SNR %.2f dB, pass rate %.2f %%, cosine %.6f",
                f.psnr_db, f.snr_db, f.pass_rate, f.cosine);
  return line + text;
}

}  // namespace gq::accuracy
