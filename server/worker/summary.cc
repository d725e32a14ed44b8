#include "server/worker/summary.h"

#include <cstdio>

#include "common/base/text.h"
#include "common/report/warning_groups.h"

namespace gq::worker {
namespace {

using base::StrAppend;
using nlohmann::json;

// A figure with `digits` decimals; the report spells infinities and NaN as text.
std::string Figure(const json& object, const char* key, int digits) {
  const auto found = object.find(key);
  if (found == object.end()) return "-";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_number()) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, found->get<double>());
  return text;
}

std::string_view VerdictWords(const std::string& result) {
  if (result == "goal_met") return "goal met";
  if (result == "goal_not_met") return "goal NOT met";
  return "not judged";
}

void AppendEvaluation(const json& part, std::string& text) {
  const json& verdict = part.at("verdict");
  StrAppend(&text, "Verdict     ", VerdictWords(verdict.at("result").get<std::string>()),
            verdict.at("default_goal").get<bool>() ? " (default goal): " : ": ",
            verdict.at("reason").get<std::string>(), "\n");
  const json& data = part.at("data");
  StrAppend(&text, "Data        ", data.at("samples").dump(), " ",
            data.at("source").get<std::string>(), " samples\n");
  for (const json& output : part.at("outputs")) {
    StrAppend(&text, "Output      ", output.at("name").get<std::string>(), ": ");
    if (output.contains("argmax_agreement")) {
      StrAppend(&text, "top-1 agreement ", Figure(output, "argmax_agreement", 2), " %, ");
    }
    StrAppend(&text, "PSNR ", Figure(output, "psnr_db", 2), " dB, SNR ",
              Figure(output, "snr_db", 2), " dB, pass rate ", Figure(output, "pass_rate", 2),
              " %, cosine ", Figure(output, "cosine", 6), "\n");
  }
}

// The stripped model against the quantized one.
void AppendStripped(const json& part, std::string& text) {
  const json fidelity = part.value("fidelity", json::object());
  for (const json& output : fidelity.value("outputs", json::array())) {
    StrAppend(&text, "Stripped    output ", output.at("name").get<std::string>(), ": SNR ",
              Figure(output, "snr_db", 2), " dB against the quantized model\n");
  }
}

// Old against new of a model that was quantized again.
void AppendRequantized(const json& part, std::string& text) {
  const auto found = part.find("requantize");
  if (found == part.end() || !found->contains("improved")) return;
  StrAppend(&text, "Requantized ",
            found->at("improved").get<bool>() ? "improved: " : "not improved: ",
            found->at("reason").get<std::string>(), ", measured against the ",
            found->at("reference") == "given" ? "FP32 model given\n" : "stripped model\n");
}

void AppendSizes(const json& part, std::string& text) {
  const auto sizes = part.find("sizes");
  if (sizes == part.end() || !sizes->contains("float_bytes")) return;
  char line[160];
  std::snprintf(line, sizeof line, "Size        %.2f MB -> %.2f MB (ratio %.2f)\n",
                sizes->at("float_bytes").get<double>() / 1e6,
                sizes->at("quantized_bytes").get<double>() / 1e6,
                sizes->at("ratio_file").get<double>());
  text += line;
}

// The part of a step, or what a search put in its place.
const json* FinalPart(const Pipeline& pipeline, gq::v1::StepKind kind, const char* key) {
  const json* explore = pipeline.Part(gq::v1::STEP_KIND_EXPLORE);
  if (explore == nullptr || !explore->contains("result")) return pipeline.Part(kind);
  const json& result = explore->at("result");
  return result.contains(key) ? &result.at(key) : pipeline.Part(kind);
}
const json* FinalEvaluation(const Pipeline& pipeline) {
  return FinalPart(pipeline, gq::v1::STEP_KIND_EVALUATE, "evaluate");
}
const json* FinalQuantization(const Pipeline& pipeline) {
  return FinalPart(pipeline, gq::v1::STEP_KIND_GRAPH_QUANTIZE, "graph_quantize");
}

void AppendExploration(const json& part, std::string& text) {
  const json& best = part.at("best");
  char line[200];
  std::snprintf(line, sizeof line,
                "Search      %s: %d of %d compute layers in %s (%.1f %%), %d full evaluations\n",
                part.at("strategy").get<std::string>().c_str(), best.at("layers").get<int>(),
                part.at("compute_layers").get<int>(),
                part.at("precision").get<std::string>().c_str(),
                100 * best.at("share").get<double>(), part.at("full_evaluations").get<int>());
  text += line;
  if (part.contains("limited_by")) {
    StrAppend(&text, "            ", part.at("limited_by").get<std::string>(), "\n");
  }
}

}  // namespace

std::string SummaryText(const Pipeline& pipeline, const SummaryFiles& files) {
  std::string text = "\n";
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_DEQUANTIZE)) AppendStripped(*part, text);
  if (const json* part = FinalEvaluation(pipeline)) {
    AppendEvaluation(*part, text);
    AppendRequantized(*part, text);
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_EXPLORE)) AppendExploration(*part, text);
  if (const json* part = FinalQuantization(pipeline)) AppendSizes(*part, text);
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_DRY_RUN)) {
    StrAppend(&text, "Advice      ", part->at("recommendation").at("text").get<std::string>(),
              "\n");
  }
  if (!pipeline.warnings().empty()) {
    StrAppend(&text, "Warnings    ", pipeline.warnings().size(), "\n");
    for (const auto& group : report::GroupWarnings(pipeline.warnings())) {
      StrAppend(&text, "            ", group.text, "\n");
    }
  }
  if (!files.model.empty()) StrAppend(&text, "Model       ", files.model, "\n");
  if (!files.report.empty()) StrAppend(&text, "Report      ", files.report, "\n");
  return text == "\n" ? std::string() : text;
}

json SummaryJson(const Pipeline& pipeline, const SummaryFiles& files, int exit_code) {
  json summary = {{"exit_code", exit_code}, {"warnings", pipeline.warnings()}};
  if (const json* part = FinalEvaluation(pipeline)) {
    summary["verdict"] = part->at("verdict");
    summary["outputs"] = part->at("outputs");
    for (json& output : summary["outputs"]) output.erase("scatter");
  }
  if (const json* part = FinalQuantization(pipeline)) {
    summary["sizes"] = part->value("sizes", json::object());
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_EXPLORE)) {
    summary["explore"] = part->at("best");
    summary["explore"].erase("nodes");
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_DRY_RUN)) summary["dry_run"] = *part;
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_EVALUATE);
      part && part->contains("requantize")) {
    summary["requantize"] = part->at("requantize");
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_DEQUANTIZE)) {
    summary["dequantize"] = part->value("fidelity", json::object());
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_ANALYZE)) summary["analysis"] = *part;
  if (!files.model.empty()) summary["model"] = files.model;
  if (!files.report.empty()) summary["report"] = files.report;
  return summary;
}

}  // namespace gq::worker
