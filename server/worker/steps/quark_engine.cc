#include "server/worker/steps/quark_engine.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/temporary_folder.h"
#include "common/base/text.h"
#include "common/harness/tool_process.h"
#include "common/quantize/quark_json.h"
#include "common/runtime/npy.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using nlohmann::json;

// The first import of the package compiles its operators, which takes minutes on a busy machine.
constexpr absl::Duration kProbeLimit = absl::Minutes(10);
constexpr absl::Duration kRunLimit = absl::Hours(6);
constexpr std::string_view kResult = "GQ-RESULT ";

// The script of --activation-script, which the operator of the worker must have allowed.
absl::StatusOr<fs::path> ActivationScript(const JobInputs& inputs) {
  const std::string& wanted = inputs.spec.activation_script();
  if (wanted.empty()) return fs::path();
  const char* const allowed = std::getenv("GQ_QUARK_ACTIVATION_SCRIPTS");
  if (allowed != nullptr) {
    for (const std::string_view script : base::StrSplit(allowed, ':')) {
      if (script == wanted) return fs::path(wanted);
    }
  }
  return MakeError(Reason::kPermissionDenied,
                   StrCat("the activation script '", wanted, "' is not allowed on this worker"),
                   "its operator lists what is in GQ_QUARK_ACTIVATION_SCRIPTS, separated by ':'");
}

absl::Status NotInstalled(const std::string& why) {
  return MakeError(Reason::kToolMissing,
                   StrCat("AMD Quark is not available in '", QuarkPython(), "': ", why),
                   StrCat("install it there (", QuarkPython(),
                          " -m pip install amd-quark onnx onnxruntime), or name another Python "
                          "with GQ_QUARK_PYTHON on the worker"));
}

// The frame of a table that Quark draws; its rows begin with a bar.
bool IsFrame(std::string_view line) {
  line = base::StripSpace(line);
  const bool drawn = line.starts_with("\xE2\x94") || line.starts_with("\xE2\x95");
  return drawn && !line.starts_with("\xE2\x94\x82") && !line.starts_with("\xE2\x94\x83");
}

// Runs the driver; its result object.
absl::StatusOr<json> Drive(const JobInputs& inputs, const fs::path& folder,
                           const std::string& argument, absl::Duration limit, base::Reporter& log) {
  const fs::path driver = folder / "quark_driver.py";
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(driver, QuarkDriver()));
  const std::string threads = std::to_string(inputs.Threads());
  harness::ToolCommand tool;
  tool.arguments = {QuarkPython(), "-u", driver.string(), argument};
  tool.environment = {{"OMP_NUM_THREADS", threads},
                      {"PYTHONDONTWRITEBYTECODE", "1"},
                      {"NO_COLOR", "1"},
                      {"COLUMNS", "160"},
                      {"TMPDIR", folder.string()}};
  tool.work_dir = folder;
  tool.time_limit = limit;
  GQ_ASSIGN_OR_RETURN(tool.activation_script, ActivationScript(inputs));
  json result;
  const auto on_line = [&](std::string_view line) {
    if (line.starts_with(kResult)) {
      result = json::parse(line.substr(kResult.size()), nullptr, false);
      return;
    }
    const std::string text = base::StripControl(line);
    if (base::StripSpace(text).empty() || IsFrame(text)) return;
    const bool warning =
        text.find("WARNING") != std::string::npos || text.find("ERROR") != std::string::npos;
    log.Log(warning ? base::LogLevel::kWarn : base::LogLevel::kInfo, "Quark", text);
  };
  const auto exit = harness::RunTool(tool, on_line, log);
  if (!exit.ok()) {
    if (base::GetReason(exit.status()) == Reason::kToolMissing) {
      return NotInstalled("there is no such program");
    }
    return exit.status();
  }
  if (!result.is_object()) {
    return MakeError(Reason::kRuntimeFailed,
                     StrCat("Quark ", exit->Describe(),
                            " without a result: ", base::StripControl(exit->last_lines)),
                     "its messages are in the log");
  }
  if (result.value("ok", false)) return result;
  const std::string message = base::StripControl(result.value("message", "no message"));
  if (result.value("kind", "") == "missing") return NotInstalled(message);
  return MakeError(Reason::kRuntimeFailed, StrCat("Quark failed: ", message),
                   "its messages are in the log; --engine native does not need it");
}

absl::StatusOr<int64_t> WriteSamples(runtime::DataSet& data, const fs::path& folder) {
  int64_t count = 0;
  std::vector<runtime::Tensor> sample;
  for (int64_t i = 0; i < data.size(); ++i) {
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(i, &sample));
    if (read != runtime::DataSet::ReadResult::kSample) continue;
    const fs::path place = folder / std::to_string(count++);
    std::error_code error;
    fs::create_directories(place, error);
    if (error)
      return MakeError(Reason::kFileUnwritable, StrCat(place.string(), ": ", error.message()));
    for (size_t input = 0; input < sample.size(); ++input) {
      GQ_RETURN_IF_ERROR(runtime::WriteNpy(place / StrCat(input, ".npy"), sample[input]));
    }
  }
  return count;
}

}  // namespace

std::string QuarkPython() {
  const char* const named = std::getenv("GQ_QUARK_PYTHON");
  return named == nullptr || *named == '\0' ? "python3" : named;
}

absl::StatusOr<json> ProbeQuark(const JobInputs& inputs, base::Reporter& log) {
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder folder, base::TemporaryFolder::Make("gq-quark-"));
  GQ_ASSIGN_OR_RETURN(const json result, Drive(inputs, folder.path(), "--probe", kProbeLimit, log));
  return result.value("versions", json::object());
}

absl::StatusOr<json> RunQuark(const JobInputs& inputs, const quantize::QuantizeConfig& config,
                              const graph::Model& model, runtime::DataSet& data,
                              const fs::path& output, StepLog& log) {
  if (config.dynamic != quantize::DynamicForm::kNone) {
    return MakeError(Reason::kConfigInvalid,
                     StrCat("--engine quark does not do the scheme ", config.scheme),
                     "take --engine native, or a scheme with static ranges");
  }
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder folder, base::TemporaryFolder::Make("gq-quark-"));
  const fs::path given = folder.path() / "model.onnx";
  GQ_RETURN_IF_ERROR(graph::SaveModel(model, given, graph::SameLayout(model)));
  GQ_ASSIGN_OR_RETURN(const int64_t count, WriteSamples(data, folder.path() / "samples"));
  json names = json::array();
  for (const runtime::InputSpec& input : data.inputs()) names.push_back(input.name);
  const json request = {{"model", given.string()},
                        {"output", fs::absolute(output).string()},
                        {"samples", (folder.path() / "samples").string()},
                        {"count", count},
                        {"inputs", std::move(names)},
                        {"threads", inputs.Threads()},
                        {"config", json::parse(quantize::WriteQuarkJson(config), nullptr, false)}};
  const fs::path path = folder.path() / "request.json";
  GQ_RETURN_IF_ERROR(
      base::WriteFileAtomically(path, request.dump(1, ' ', false, json::error_handler_t::replace)));
  const absl::Duration limit = inputs.spec.run_timeout().seconds() > 0
                                   ? absl::Seconds(inputs.spec.run_timeout().seconds())
                                   : kRunLimit;
  GQ_ASSIGN_OR_RETURN(const json result, Drive(inputs, folder.path(), path.string(), limit, log));
  return result.value("versions", json::object());
}

}  // namespace gq::worker
