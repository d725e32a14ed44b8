#include "board_agent/backends/vitisai/vitisai_backend.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "board_agent/backends/board_options.h"
#include "board_agent/backends/vitisai/remote_board.h"
#include "board_agent/backends/vitisai/vart_files.h"
#include "board_agent/ort_harness.h"
#include "common/base/file.h"
#include "common/base/host.h"
#include "common/base/status.h"
#include "common/base/temporary_folder.h"
#include "common/base/text.h"
#include "common/compile/compiler_log.h"
#include "common/compile/device.h"
#include "common/graph/model.h"
#include "common/harness/harness_call.h"
#include "common/rpc/steady_time.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::LogLevel;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr std::string_view kProvider = "VitisAIExecutionProvider";
constexpr std::string_view kActuallyOnNpu = "Actually running on NPU";
constexpr int kProbeSeconds = 60;
constexpr int kCompileSeconds = 4 * 3600;
constexpr int kRunSeconds = 1800;

absl::StatusOr<BoardOptions> OptionsOf(const BoardSpec& board) {
  return BoardOptions::Read(
      board, {"onnxruntime", "script", "scripts", "run", "vart", "npu", "compile_seconds",
              "run_seconds", "ssh", "ssh_port", "ssh_key", "ssh_known_hosts", "ssh_folder",
              "ssh_lock", "ssh_wait", "ssh_setup", "ssh_legacy_copy"});
}

bool IsRemote(const BoardOptions& options) { return options.Has("ssh"); }
bool RunsOnVart(const BoardOptions& options) {
  return IsRemote(options) || options.Get("run") == "vart";
}

// The provider's options; creating a session with them is the compile.
Json ProviderOptions(const fs::path& config, const fs::path& cache, const std::string& key) {
  return {
      {"target", "VAIML"},   {"config_file", config.string()},    {"cache_dir", cache.string()},
      {"cache_key", key},    {"ai_analyzer_visualization", "1"},  {"ai_analyzer_profiling", "1"},
      {"log_level", "info"}, {"enable_cache_file_io_in_mem", "0"}};
}

std::map<std::string, std::string> Environment(const BoardOptions& options) {
  std::map<std::string, std::string> environment = {{"DEBUG_VAIML_PARTITION", "2"},
                                                    {"DEBUG_LOG_LEVEL", "info"},
                                                    {"FLEXML_PRINT_VITISTOOLS_OUTPUT", "1"}};
  for (const auto& [name, value] : options.Environment()) environment[name] = value;
  return environment;
}

// A call of `gq-agent harness` with the vendor's library.
absl::StatusOr<harness::HarnessCall> SessionCall(const BoardOptions& options, std::string action,
                                                 std::string_view script,
                                                 const fs::path& work_dir) {
  harness::HarnessCall call;
  GQ_ASSIGN_OR_RETURN(const fs::path program, base::OwnProgram());
  call.tool.arguments = {program.string(), "harness"};
  GQ_ASSIGN_OR_RETURN(call.tool.activation_script, options.ActivationScript(script));
  call.tool.environment = Environment(options);
  call.tool.work_dir = work_dir;
  call.tool.large_stack = true;
  call.request["runtime"] = {{"library", options.Get("onnxruntime")}};
  call.action = std::move(action);
  call.level = LogLevel::kDebug;
  return call;
}

// Whether ONNX Runtime can be loaded and has the provider; if not, why.
absl::StatusOr<Json> ProbeProvider(const BoardOptions& options, const fs::path& scratch) {
  if (!options.Has("onnxruntime")) {
    return MakeError(
        Reason::kToolMissing,
        "no ONNX Runtime with the VitisAI provider: the option onnxruntime is not set");
  }
  GQ_ASSIGN_OR_RETURN(harness::HarnessCall call, SessionCall(options, "probe", "", scratch));
  call.tool.time_limit = absl::Seconds(kProbeSeconds);
  base::NullReporter quiet;
  GQ_ASSIGN_OR_RETURN(Json response, harness::CallHarness(call, quiet));
  const Json providers = response.value("providers", Json::array());
  if (std::find(providers.begin(), providers.end(), Json(kProvider)) == providers.end()) {
    return MakeError(
        Reason::kToolMissing,
        StrCat("the ONNX Runtime in ", options.Get("onnxruntime"), " has no ", kProvider));
  }
  return response;
}

// A tool of the vendor's environment on this host.
absl::StatusOr<std::string> RunLocally(const BoardOptions& options,
                                       std::vector<std::string> arguments, const fs::path& work_dir,
                                       const base::Reporter& reporter) {
  harness::ToolCommand command;
  command.arguments = std::move(arguments);
  GQ_ASSIGN_OR_RETURN(command.activation_script, options.ActivationScript(""));
  command.environment = Environment(options);
  command.work_dir = work_dir;
  command.time_limit = absl::Seconds(kProbeSeconds);
  std::string output;
  GQ_ASSIGN_OR_RETURN(
      const harness::ToolExit exit,
      harness::RunTool(
          command, [&](std::string_view line) { base::StrAppend(&output, line, "\n"); }, reporter));
  if (exit.ok()) return output;
  return MakeError(Reason::kToolMissing,
                   StrCat(command.arguments.front(), " ", exit.Describe(),
                          exit.last_lines.empty() ? "" : ": ", exit.last_lines));
}

absl::Status CheckNpu(const BoardOptions& options, const fs::path& scratch,
                      const base::Reporter& reporter) {
  const std::string npu = options.Get("npu", "auto");
  if (npu == "yes") return absl::OkStatus();
  if (npu != "auto") return MakeError(Reason::kBoardFailed, "this host has no NPU");
  const auto examined = RunLocally(options, {"xrt-smi", "examine"}, scratch, reporter);
  if (examined.ok() && examined->find("0 devices found") == std::string::npos) {
    return absl::OkStatus();
  }
  return MakeError(Reason::kBoardFailed,
                   StrCat("no NPU on this host: ",
                          examined.ok() ? std::string("xrt-smi found no device")
                                        : std::string(base::FromAbsl(examined.status().message()))),
                   "Set the option npu to yes when there is one.");
}

// Whether something can run on the board, in words, or why not.
absl::StatusOr<std::string> CheckExec(const BoardOptions& options, const fs::path& scratch,
                                      bool has_provider, const base::Reporter& reporter) {
  const std::string vart = options.Get("vart", "ml_vart");
  if (IsRemote(options)) {
    GQ_ASSIGN_OR_RETURN(const SshTarget target, ReadSshTarget(options));
    GQ_RETURN_IF_ERROR(RemoteBoard(target, scratch)
                           .Command(
                               StrCat("command -v ", ShellQuote(vart), " > /dev/null || { echo ",
                                      ShellQuote(vart + " is not there"),
                                      "; exit 1; }; command -v flock > /dev/null || { echo "
                                      "flock is not there; exit 1; }"),
                               [](std::string_view) {}, reporter));
    return StrCat("ml_vart over ssh on ", target.destination);
  }
  GQ_RETURN_IF_ERROR(CheckNpu(options, scratch, reporter));
  if (RunsOnVart(options)) {
    GQ_RETURN_IF_ERROR(RunLocally(options, {"sh", "-c", StrCat("command -v ", ShellQuote(vart))},
                                  scratch, reporter)
                           .status());
    return std::string("ml_vart on this host");
  }
  if (!has_provider) return MakeError(Reason::kToolMissing, "the VitisAI provider is missing");
  return std::string("the VitisAI provider on this host");
}

// What the log of a run says about where it ran.
std::string WhereItRan(const compile::CompilerLog& log) {
  const auto found = log.subgraphs.find(std::string(kActuallyOnNpu));
  if (found == log.subgraphs.end() || found->second > 0) return "";
  return "the runtime says that nothing is actually running on the NPU";
}

absl::StatusOr<std::vector<runtime::TensorInfo>> OutputsOf(const fs::path& path) {
  GQ_ASSIGN_OR_RETURN(const graph::Model model, graph::LoadModel(path));
  std::vector<runtime::TensorInfo> outputs;
  for (const onnx::ValueInfoProto& value : model.graph().output()) {
    runtime::TensorInfo& info = outputs.emplace_back();
    info.name = value.name();
    info.dtype = value.type().tensor_type().elem_type();
    for (const auto& dim : value.type().tensor_type().shape().dim()) {
      info.shape.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
    }
  }
  return outputs;
}

absl::Status CopyTree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  fs::copy(from, to, fs::copy_options::recursive, error);
  if (!error) return absl::OkStatus();
  return MakeError(Reason::kFileUnwritable, StrCat(to.string(), ": ", error.message()));
}

// One run on a board; what is common to the two ways.
class VitisaiRun {
 public:
  VitisaiRun(const RunRequest& request, const BoardOptions& options, base::Reporter& reporter)
      : request_(request), options_(options), reporter_(reporter) {}

  absl::StatusOr<BoardRun> OnProvider() {
    GQ_ASSIGN_OR_RETURN(harness::HarnessCall call,
                        SessionCall(options_, "run", request_.activation_script, request_.scratch));
    GQ_ASSIGN_OR_RETURN(call.tool.time_limit, options_.Seconds("run_seconds", kRunSeconds));
    call.component = "Run";
    // The provider may write into its cache, and the compiled files are those of an earlier step.
    const fs::path cache = request_.scratch / "cache";
    GQ_RETURN_IF_ERROR(CopyTree(request_.compiled / request_.key, cache / request_.key));
    const fs::path config = request_.scratch / "vitisai_config.json";
    GQ_RETURN_IF_ERROR(
        base::WriteFileAtomically(config, compile::FormatVitisaiConfig(request_.options)));
    call.tool.log_file = request_.scratch / "run.log";
    call.request["runtime"]["provider"] = "VitisAI";
    call.request["runtime"]["provider_options"] = ProviderOptions(config, cache, request_.key);
    call.request["model"] = request_.model.string();
    GQ_RETURN_IF_ERROR(WriteRunInputs(request_, request_.scratch, call.request));
    call.request["output_dir"] = request_.scratch.string();
    call.request["warmup"] = request_.warmup;
    call.request["runs"] = request_.runs;
    call.request["time_limit_seconds"] = absl::ToDoubleSeconds(request_.time_limit);
    GQ_ASSIGN_OR_RETURN(const Json response, harness::CallHarness(call, reporter_));
    BoardRun run;
    GQ_RETURN_IF_ERROR(ReadRunOutputs(response, run));
    run.samples_ms = response.value("samples_ms", std::vector<double>());
    run.setup_seconds = response.value("setup_seconds", 0.0);
    Json conditions = response.value("conditions", Json::object());
    AddConditions(conditions);
    run.conditions_json = conditions.dump();
    GQ_ASSIGN_OR_RETURN(const std::string log, base::ReadFile(call.tool.log_file));
    run.fell_back = FellBack(compile::ParseCompilerLog(log));
    return run;
  }

  absl::StatusOr<BoardRun> OnVart() {
    const fs::path folder = request_.scratch / "vart";
    GQ_RETURN_IF_ERROR(CopyTree(request_.compiled / request_.key, folder / "model"));
    GQ_RETURN_IF_ERROR(WriteVartFiles(folder, request_.key, request_.input_names, request_.inputs));
    // Once for the outputs, then for the times.
    const std::string vart = ShellQuote(options_.Get("vart", "ml_vart"));
    const std::string script =
        StrCat(vart, " --app-config app.json --runs 1\n", vart, " --app-config app.json --runs ",
               request_.runs, " --benchmark");
    BoardRun run;
    std::string log;
    std::optional<double> mean_ms;
    const auto on_line = [&](std::string_view line) {
      base::StrAppend(&log, line, "\n");
      if (const auto time = ParseVartTime(line)) mean_ms = time;
      reporter_.Log(LogLevel::kDebug, "Run", line);
    };
    const absl::Duration start = rpc::SteadyNow();
    GQ_ASSIGN_OR_RETURN(const absl::Duration limit, options_.Seconds("run_seconds", kRunSeconds));
    if (IsRemote(options_)) {
      GQ_ASSIGN_OR_RETURN(SshTarget target, ReadSshTarget(options_));
      GQ_ASSIGN_OR_RETURN(const RemoteRun remote,
                          RemoteBoard(std::move(target), request_.scratch)
                              .RunFolder(folder, script, limit, on_line, reporter_));
      run.waiting_seconds = remote.waiting_seconds;
      run.transfer_seconds = remote.transfer_seconds;
    } else {
      GQ_RETURN_IF_ERROR(RunHere(folder, script, limit, on_line));
    }
    if (!mean_ms) {
      return MakeError(Reason::kBoardFailed, "ml_vart printed no inference time",
                       "See its lines in the log of the step (--verbose).");
    }
    run.samples_ms = {*mean_ms};
    run.mean_of = request_.runs;
    const double inference = *mean_ms / 1e3 * (request_.runs + 1);
    run.setup_seconds = std::max(0.0, absl::ToDoubleSeconds(rpc::SteadyNow() - start) -
                                          run.waiting_seconds - run.transfer_seconds - inference);
    GQ_ASSIGN_OR_RETURN(const auto expected, OutputsOf(request_.model));
    GQ_ASSIGN_OR_RETURN(run.outputs, ReadVartOutputs(folder, expected));
    Json conditions = {{"tool", "ml_vart"}};
    AddConditions(conditions);
    run.conditions_json = conditions.dump();
    run.fell_back = FellBack(compile::ParseCompilerLog(log));
    return run;
  }

 private:
  absl::Status RunHere(const fs::path& folder, const std::string& script, absl::Duration limit,
                       const std::function<void(std::string_view)>& on_line) {
    harness::ToolCommand command;
    command.arguments = {"sh", "-ec", script};
    GQ_ASSIGN_OR_RETURN(command.activation_script,
                        options_.ActivationScript(request_.activation_script));
    command.environment = Environment(options_);
    command.work_dir = folder;
    command.time_limit = limit;
    GQ_ASSIGN_OR_RETURN(const harness::ToolExit exit,
                        harness::RunTool(command, on_line, reporter_));
    if (exit.ok()) return absl::OkStatus();
    return MakeError(Reason::kBoardFailed,
                     StrCat("ml_vart ", exit.Describe(), ": ", exit.last_lines));
  }

  void AddConditions(Json& conditions) const {
    conditions["columns"] =
        compile::ColumnsUsed(request_.options.tp_size, request_.options.dp_size);
    conditions["dp_size"] = request_.options.dp_size;
    conditions["tp_size"] = request_.options.tp_size;
    conditions["how"] = IsRemote(options_) ? "ml_vart over ssh"
                                           : (RunsOnVart(options_) ? "ml_vart" : "ONNX Runtime");
  }

  std::string FellBack(const compile::CompilerLog& log) const {
    std::error_code error;
    if (!fs::exists(request_.compiled / request_.key / StrCat(request_.key, ".rai"), error)) {
      return StrCat("there is no compiled model ", request_.key, ".rai");
    }
    return WhereItRan(log);
  }

  const RunRequest& request_;
  const BoardOptions& options_;
  base::Reporter& reporter_;
};

}  // namespace

bool VitisaiBackend::TakesManySamples(const BoardSpec& board) const {
  const absl::StatusOr<BoardOptions> options = OptionsOf(board);
  return options.ok() && !RunsOnVart(*options);
}

absl::StatusOr<Probe> VitisaiBackend::ProbeBoard(const BoardSpec& board) const {
  GQ_ASSIGN_OR_RETURN(const BoardOptions options, OptionsOf(board));
  const auto device = compile::FindDevice(board.device);
  if (!device || board.device == "ve2-sim") {
    return MakeError(Reason::kDeviceUnknown,
                     StrCat("board ", board.name, ": '", board.device, "' is no VE2 device"),
                     "Devices: ve2-xc2ve3858, ve2-xc2ve3558, ve2-xc2ve3358.");
  }
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder scratch,
                      base::TemporaryFolder::Make("gq-agent-"));
  Probe probe;
  probe.vaiml = true;
  probe.runs_compiled = true;
  probe.schemes = {"vint8", "bf16", "fp16", "vint8+bf16", "vint8+fp16", "xint8"};
  probe.absent = options.UnusableScripts();
  Json facts = {{"part", device->part}, {"columns", device->columns}};
  const absl::StatusOr<Json> provider = ProbeProvider(options, scratch.path());
  if (provider.ok()) {
    probe.capabilities.emplace_back("compile:vitisai");
    facts["onnxruntime_version"] = provider->value("version", "");
  } else {
    probe.absent.push_back(StrCat("compile: ", base::FromAbsl(provider.status().message())));
  }
  base::NullReporter quiet;
  const auto exec = CheckExec(options, scratch.path(), provider.ok(), quiet);
  if (exec.ok()) {
    probe.capabilities.push_back(StrCat("exec:", board.device));
    facts["runs_on"] = *exec;
  } else {
    probe.absent.push_back(StrCat("exec: ", base::FromAbsl(exec.status().message())));
  }
  probe.facts_json = facts.dump();
  return probe;
}

absl::StatusOr<CompileRun> VitisaiBackend::Compile(const CompileRequest& request,
                                                   base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const BoardOptions options, OptionsOf(request.board));
  GQ_ASSIGN_OR_RETURN(harness::HarnessCall call,
                      SessionCall(options, "compile", request.activation_script, request.scratch));
  GQ_ASSIGN_OR_RETURN(call.tool.time_limit, options.Seconds("compile_seconds", kCompileSeconds));
  call.component = "Compile";
  call.failure = Reason::kCompileFailed;
  const fs::path folder = request.cache / request.key;
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // a cache of another version must not be taken for the result
  const fs::path config = request.scratch / "vitisai_config.json";
  GQ_RETURN_IF_ERROR(
      base::WriteFileAtomically(config, compile::FormatVitisaiConfig(request.options)));
  call.tool.log_file = request.scratch / "session.log";
  call.request["model"] = request.model.string();
  call.request["runtime"]["provider"] = "VitisAI";
  call.request["runtime"]["provider_options"] = ProviderOptions(config, request.cache, request.key);
  reporter.Info("Compile", "Creating the session with the VitisAI provider; this takes minutes");
  const absl::StatusOr<Json> response = harness::CallHarness(call, reporter);
  // The log tells more than the error.
  if (fs::exists(call.tool.log_file, ignored) && base::MakeFolder(folder).ok()) {
    fs::copy_file(call.tool.log_file, folder / "session.log", fs::copy_options::overwrite_existing,
                  ignored);
  }
  GQ_RETURN_IF_ERROR(response.status());
  CompileRun run;
  const Json seconds = response->value("seconds", Json::object());
  for (const auto& [phase, value] : seconds.items()) {
    run.seconds.emplace_back(phase, value.get<double>());
  }
  const std::string message = response->value("message", "");
  if (!message.empty()) {
    reporter.Info("Compile",
                  StrCat("This host has no NPU, which a compile does not need: ", message));
  }
  const Json facts = {{"session", response->value("session", false)}};
  run.facts_json = facts.dump();
  return run;
}

absl::StatusOr<BoardRun> VitisaiBackend::Run(const RunRequest& request,
                                             base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const BoardOptions options, OptionsOf(request.board));
  if (request.compiled.empty()) {
    return MakeError(Reason::kNotAvailable, "the model was not compiled for the board",
                     "Run it in a job with the steps Compile and Board Run (--stage exec).");
  }
  VitisaiRun run(request, options, reporter);
  return RunsOnVart(options) ? run.OnVart() : run.OnProvider();
}

absl::StatusOr<std::string> VitisaiBackend::CheckHealth(const BoardSpec& board,
                                                        base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const BoardOptions options, OptionsOf(board));
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder scratch,
                      base::TemporaryFolder::Make("gq-agent-"));
  const absl::StatusOr<Json> provider = ProbeProvider(options, scratch.path());
  const auto exec = CheckExec(options, scratch.path(), provider.ok(), reporter);
  if (exec.ok()) return StrCat("can run with ", *exec);
  // A host that only compiles is well as long as it can do that.
  const bool compiles_only = options.Get("npu") == "no" && !IsRemote(options);
  if (compiles_only && provider.ok()) return std::string("can compile");
  return MakeError(Reason::kBoardFailed,
                   base::FromAbsl((compiles_only ? provider.status() : exec.status()).message()),
                   base::GetHint(exec.status()));
}

}  // namespace gq::agent
