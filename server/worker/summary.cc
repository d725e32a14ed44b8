#include "server/worker/summary.h"

#include <cstdio>

#include "common/base/text.h"

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

}  // namespace

std::string SummaryText(const Pipeline& pipeline, const SummaryFiles& files) {
  std::string text = "\n";
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_EVALUATE)) AppendEvaluation(*part, text);
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_GRAPH_QUANTIZE)) AppendSizes(*part, text);
  if (!pipeline.warnings().empty()) {
    StrAppend(&text, "Warnings    ", pipeline.warnings().size(), "\n");
    for (const std::string& warning : pipeline.warnings()) {
      StrAppend(&text, "            ", warning, "\n");
    }
  }
  if (!files.model.empty()) StrAppend(&text, "Model       ", files.model, "\n");
  if (!files.report.empty()) StrAppend(&text, "Report      ", files.report, "\n");
  return text == "\n" ? std::string() : text;
}

json SummaryJson(const Pipeline& pipeline, const SummaryFiles& files, int exit_code) {
  json summary = {{"exit_code", exit_code}, {"warnings", pipeline.warnings()}};
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_EVALUATE)) {
    summary["verdict"] = part->at("verdict");
    summary["outputs"] = part->at("outputs");
    for (json& output : summary["outputs"]) output.erase("scatter");
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_GRAPH_QUANTIZE)) {
    summary["sizes"] = part->value("sizes", json::object());
  }
  if (const json* part = pipeline.Part(gq::v1::STEP_KIND_ANALYZE)) summary["analysis"] = *part;
  if (!files.model.empty()) summary["model"] = files.model;
  if (!files.report.empty()) summary["report"] = files.report;
  return summary;
}

}  // namespace gq::worker
