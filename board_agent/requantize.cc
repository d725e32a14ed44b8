#include "board_agent/requantize.h"

#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/harness/tool_process.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr char kComponent[] = "Compile";
constexpr int kGoalNotMet = 10;

// Node names come back from the compiler with prefixes and suffixes.
bool IsAmong(const std::string& node, const std::vector<std::string>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](const std::string& layer) {
    return layer == node || (node.size() > 3 && layer.find(node) != std::string::npos);
  });
}

absl::StatusOr<std::vector<std::string>> Arguments(const rpc::StepContext& context,
                                                   const std::string& worker,
                                                   const Requantized& result,
                                                   const fs::path& report) {
  GQ_ASSIGN_OR_RETURN(const std::vector<fs::path> calibration, context.files.NamedCalibration());
  GQ_ASSIGN_OR_RETURN(const std::vector<fs::path> evaluation, context.files.NamedEvaluation());
  const gq::v1::JobSpec& spec = context.lease.spec();
  std::vector<std::string> words = {worker,       "quantize",
                                    "--model",    context.files.model().string(),
                                    "--config",   result.config.string(),
                                    "--output",   result.model.string(),
                                    "--report",   report.string(),
                                    "--evaluate", "--allow-unmatched",
                                    "--no-color"};
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  const auto add_files = [&](const char* flag, const std::vector<fs::path>& files) {
    if (files.empty()) return;
    words.emplace_back(flag);
    for (const fs::path& file : files) words.push_back(file.string());
  };
  for (const std::string& shape : spec.input_shape()) add("--input-shape", shape);
  for (const std::string& goal : spec.target_accuracy()) add("--target-accuracy", goal);
  if (!spec.task().empty()) add("--task", spec.task());
  if (spec.has_num_samples()) add("--num-samples", StrCat(spec.num_samples()));
  if (spec.has_seed()) add("--seed", StrCat(spec.seed()));
  if (spec.allow_nonfinite()) words.emplace_back("--allow-nonfinite");
  add_files("--calibration-data", calibration);
  add_files("--evaluation-data", evaluation);
  if (const auto labels = context.files.labels(); labels && !evaluation.empty()) {
    add("--labels", labels->string());
  }
  return words;
}

}  // namespace

std::vector<std::string> IncludeLayers(const std::vector<std::string>& layers,
                                       std::string& config) {
  std::vector<std::string> included;
  Json json = Json::parse(config, nullptr, false);
  const Json::json_pointer path("/exclude/node_names");
  if (!json.is_object() || !json.contains(path) || !json[path].is_array()) return included;
  Json kept = Json::array();
  for (const Json& entry : json[path]) {
    const bool is_name = entry.is_string() && !entry.get<std::string>().starts_with('^');
    if (is_name && IsAmong(entry.get<std::string>(), layers)) {
      included.push_back(entry.get<std::string>());
    } else {
      kept.push_back(entry);
    }
  }
  if (included.empty()) return included;
  json[path] = std::move(kept);
  // The list stands a second time where Quark's own driver reads it.
  const Json::json_pointer twin("/extra_options/NodesToExclude");
  if (json.contains(twin)) json[twin] = json[path];
  config = json.dump(2);
  return included;
}

absl::StatusOr<std::optional<Requantized>> Requantize(const rpc::StepContext& context,
                                                      const compile::PartitionReport& report,
                                                      const fs::path& folder) {
  const std::optional<fs::path> old_config = context.files.artifact("quark_config.json");
  if (!old_config) return std::nullopt;
  GQ_ASSIGN_OR_RETURN(std::string config, base::ReadFile(*old_config));
  std::vector<std::string> layers;
  for (const compile::CpuReason& reason : report.cpu_reasons) {
    layers.insert(layers.end(), reason.layers.begin(), reason.layers.end());
  }
  Requantized result;
  result.included = IncludeLayers(layers, config);
  if (result.included.empty()) return std::nullopt;
  GQ_ASSIGN_OR_RETURN(const fs::path program, base::OwnProgram());
  const fs::path worker = program.parent_path() / "gq-worker";
  std::error_code error;
  if (!fs::exists(worker, error)) {
    context.reporter.Warn(kComponent,
                          "The quantization stays as it is: this host has no gq-worker");
    return std::nullopt;
  }
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
  result.model = folder / "model_quantized.onnx";
  result.config = folder / "quark_config.json";
  const fs::path report_file = folder / "report.json";
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(result.config, config));
  harness::ToolCommand command;
  GQ_ASSIGN_OR_RETURN(command.arguments, Arguments(context, worker.string(), result, report_file));
  command.work_dir = folder;
  context.reporter.Info(kComponent, StrCat("Quantizing again with ",
                                           base::StrJoin(result.included, ", "), " as integers"));
  GQ_ASSIGN_OR_RETURN(const harness::ToolExit exit,
                      harness::RunTool(
                          command,
                          [&](std::string_view line) {
                            context.reporter.Log(base::LogLevel::kDebug, "Quantize", line);
                          },
                          context.reporter));
  const bool missed = WIFEXITED(exit.status) && WEXITSTATUS(exit.status) == kGoalNotMet;
  if (!exit.ok() && !missed) {
    return MakeError(Reason::kCompileFailed,
                     StrCat("the changed quantization failed: ", exit.last_lines));
  }
  GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(report_file));
  const Json parsed = Json::parse(text, nullptr, false);
  const Json::json_pointer verdict("/evaluate/verdict/result");
  result.verdict = parsed.is_object() && parsed.contains(verdict) && parsed[verdict].is_string()
                       ? parsed[verdict].get<std::string>()
                       : std::string("not_judged");
  return result;
}

}  // namespace gq::agent
