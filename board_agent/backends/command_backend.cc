#include "board_agent/backends/command_backend.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "board_agent/backends/board_options.h"
#include "board_agent/ort_harness.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/temporary_folder.h"
#include "common/base/text.h"
#include "common/harness/harness_call.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr int kProbeSeconds = 60;
constexpr int kCompileSeconds = 7200;
constexpr int kRunSeconds = 1800;
constexpr std::string_view kOwnOption = "x.";

absl::StatusOr<BoardOptions> OptionsOf(const BoardSpec& board) {
  std::vector<std::string> known = {"command",         "script",      "scripts",
                                    "compile_seconds", "run_seconds", "probe_seconds"};
  for (const auto& [key, value] : board.options) {
    if (key.starts_with(kOwnOption)) known.push_back(key);
  }
  return BoardOptions::Read(board, std::move(known));
}

Json BoardJson(const BoardSpec& board) {
  Json own = Json::object();
  for (const auto& [key, value] : board.options) {
    if (key.starts_with(kOwnOption)) own[key.substr(kOwnOption.size())] = value;
  }
  return {{"name", board.name}, {"device", board.device}, {"options", own}};
}

absl::StatusOr<harness::HarnessCall> MakeCall(const BoardSpec& board, std::string action,
                                              std::string_view script, const fs::path& work_dir) {
  GQ_ASSIGN_OR_RETURN(const BoardOptions options, OptionsOf(board));
  harness::HarnessCall call;
  const std::string command = options.Get("command");
  for (const std::string_view word : base::StrSplit(command, ' ')) {
    if (!word.empty()) call.tool.arguments.emplace_back(word);
  }
  if (call.tool.arguments.empty()) {
    return MakeError(
        Reason::kConfigInvalid,
        StrCat("board ", board.name, ": backend command ", "needs the option `command`"),
        "Give the program that drives the board (docs/harness.md).");
  }
  GQ_ASSIGN_OR_RETURN(call.tool.activation_script, options.ActivationScript(script));
  call.tool.environment = options.Environment();
  call.tool.work_dir = work_dir;
  const bool compiles = action == "compile";
  const bool runs = action == "run";
  GQ_ASSIGN_OR_RETURN(
      call.tool.time_limit,
      options.Seconds(compiles ? "compile_seconds" : (runs ? "run_seconds" : "probe_seconds"),
                      compiles ? kCompileSeconds : (runs ? kRunSeconds : kProbeSeconds)));
  call.tool.large_stack = compiles;
  call.request["board"] = BoardJson(board);
  call.component = compiles ? "Compile" : (runs ? "Run" : "Harness");
  call.failure = compiles ? Reason::kCompileFailed : Reason::kBoardFailed;
  call.action = std::move(action);
  return call;
}

std::vector<std::string> Texts(const Json& object, const char* key) {
  std::vector<std::string> texts;
  for (const Json& entry : object.value(key, Json::array())) {
    if (entry.is_string()) texts.push_back(entry.get<std::string>());
  }
  return texts;
}

std::string Dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double Seconds(const Json& response, const char* key) {
  const auto found = response.find(key);
  return found != response.end() && found->is_number() ? found->get<double>() : 0;
}

// Of a response: what a report may take over.
Json Object(const Json& response, const char* key) {
  const auto found = response.find(key);
  return found != response.end() && found->is_object() ? *found : Json::object();
}

}  // namespace

absl::StatusOr<Probe> CommandBackend::ProbeBoard(const BoardSpec& board) const {
  GQ_ASSIGN_OR_RETURN(const BoardOptions options, OptionsOf(board));
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder scratch,
                      base::TemporaryFolder::Make("gq-agent-"));
  GQ_ASSIGN_OR_RETURN(harness::HarnessCall call, MakeCall(board, "probe", "", scratch.path()));
  call.level = base::LogLevel::kDebug;
  Probe probe;
  probe.absent = options.UnusableScripts();
  base::NullReporter quiet;
  const absl::StatusOr<Json> response = harness::CallHarness(call, quiet);
  if (!response.ok()) {
    const std::string why(base::FromAbsl(response.status().message()));
    probe.absent.push_back(StrCat("compile: ", why));
    probe.absent.push_back(StrCat("exec: ", why));
    return probe;
  }
  for (const std::string& what : Texts(*response, "can")) {
    if (what == "compile") probe.capabilities.emplace_back("compile:command");
    if (what == "run") probe.capabilities.push_back(StrCat("exec:", board.device));
  }
  probe.schemes = Texts(*response, "schemes");
  for (std::string& absent : Texts(*response, "absent")) probe.absent.push_back(std::move(absent));
  probe.simulated = response->value("simulated", Json(false)) == Json(true);
  probe.vaiml = response->value("vaiml", Json(false)) == Json(true);
  probe.runs_compiled = response->value("runs_compiled", Json(false)) == Json(true);
  probe.facts_json = Dump(Object(*response, "facts"));
  return probe;
}

absl::StatusOr<CompileRun> CommandBackend::Compile(const CompileRequest& request,
                                                   base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(
      harness::HarnessCall call,
      MakeCall(request.board, "compile", request.activation_script, request.scratch));
  const fs::path folder = request.cache / request.key;
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
  call.request["model"] = request.model.string();
  call.request["key"] = request.key;
  call.request["output_dir"] = folder.string();
  call.request["class"] = compile::ModelClassName(request.classification.model_class);
  call.request["vitisai_config"] =
      Json::parse(compile::FormatVitisaiConfig(request.options), nullptr, false);
  GQ_ASSIGN_OR_RETURN(const Json response, harness::CallHarness(call, reporter));
  CompileRun run;
  const Json seconds = Object(response, "seconds");
  for (const auto& [phase, value] : seconds.items()) {
    if (value.is_number()) run.seconds.emplace_back(phase, value.get<double>());
  }
  run.facts_json = Dump(Object(response, "facts"));
  Json partition = Json::object();
  for (const char* key : {"partitions", "offload"}) {
    if (const Json part = Object(response, key); !part.empty()) partition[key] = part;
  }
  if (response.value("cpu_because", Json()).is_array()) {
    partition["cpu_because"] = response["cpu_because"];
  }
  run.partition_json = Dump(partition);
  return run;
}

absl::StatusOr<BoardRun> CommandBackend::Run(const RunRequest& request,
                                             base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(harness::HarnessCall call,
                      MakeCall(request.board, "run", request.activation_script, request.scratch));
  GQ_RETURN_IF_ERROR(WriteRunInputs(request, request.scratch, call.request));
  call.request["model"] = request.model.string();
  if (!request.compiled.empty()) {
    call.request["compiled"] = (request.compiled / request.key).string();
    call.request["key"] = request.key;
  }
  call.request["output_dir"] = request.scratch.string();
  call.request["output_names"] = request.output_names;
  call.request["warmup"] = request.warmup;
  call.request["runs"] = request.runs;
  call.request["time_limit_seconds"] = absl::ToDoubleSeconds(request.time_limit);
  GQ_ASSIGN_OR_RETURN(const Json response, harness::CallHarness(call, reporter));
  BoardRun run;
  GQ_RETURN_IF_ERROR(ReadRunOutputs(response, run));
  for (const Json& sample : response.value("samples_ms", Json::array())) {
    if (sample.is_number()) run.samples_ms.push_back(sample.get<double>());
  }
  run.mean_of = static_cast<int>(Seconds(response, "mean_of"));
  run.setup_seconds = Seconds(response, "setup_seconds");
  run.waiting_seconds = Seconds(response, "waiting_seconds");
  run.transfer_seconds = Seconds(response, "transfer_seconds");
  if (response.contains("fell_back") && response["fell_back"].is_string()) {
    run.fell_back = response["fell_back"].get<std::string>();
  }
  run.conditions_json = Dump(Object(response, "conditions"));
  return run;
}

absl::StatusOr<std::string> CommandBackend::CheckHealth(const BoardSpec& board,
                                                        base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder scratch,
                      base::TemporaryFolder::Make("gq-agent-"));
  GQ_ASSIGN_OR_RETURN(const harness::HarnessCall call,
                      MakeCall(board, "health", "", scratch.path()));
  GQ_ASSIGN_OR_RETURN(const Json response, harness::CallHarness(call, reporter));
  if (response.contains("detail") && response["detail"].is_string()) {
    return response["detail"].get<std::string>();
  }
  return std::string("the harness says that the board is well");
}

}  // namespace gq::agent
