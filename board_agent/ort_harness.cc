#include "board_agent/ort_harness.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/harness/harness_call.h"
#include "common/rpc/steady_time.h"
#include "common/runtime/npy.h"
#include "common/runtime/ort_library.h"
#include "common/runtime/session.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

// What the VitisAI provider throws on a host without an NPU; the compile itself is done by then.
constexpr std::string_view kNoDevice = "No such device";

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double Number(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

Json RuntimeOf(const Json& request) { return request.value("runtime", Json::object()); }

absl::StatusOr<const runtime::OrtLibrary*> OpenLibrary(const Json& request) {
  GQ_RETURN_IF_ERROR(runtime::OrtLibrary::Select(Text(RuntimeOf(request), "library")));
  return runtime::OrtLibrary::Get();
}

runtime::SessionOptions OptionsOf(const Json& request) {
  const Json runtime = RuntimeOf(request);
  runtime::SessionOptions options;
  options.threads = std::max(1, static_cast<int>(Number(runtime, "threads", 1)));
  options.disable_quant_qdq = false;
  if (const std::string provider = Text(runtime, "provider"); !provider.empty()) {
    runtime::ExecutionProvider& entry = options.providers.emplace_back();
    entry.name = provider;
    const Json provider_options = runtime.value("provider_options", Json::object());
    for (const auto& [key, value] : provider_options.items()) {
      entry.options.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return options;
}

absl::StatusOr<Json> ProbeRuntime(const Json& request) {
  GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, OpenLibrary(request));
  GQ_ASSIGN_OR_RETURN(const std::vector<std::string> providers, library->Providers());
  return Json{{"version", library->version()}, {"path", library->path()}, {"providers", providers}};
}

absl::StatusOr<Json> Compile(const Json& request) {
  GQ_RETURN_IF_ERROR(OpenLibrary(request).status());
  const absl::Duration start = rpc::SteadyNow();
  const auto session = runtime::Session::CreateFromFile(Text(request, "model"), OptionsOf(request));
  Json response = {{"session", session.ok()},
                   {"seconds", {{"session", absl::ToDoubleSeconds(rpc::SteadyNow() - start)}}}};
  if (session.ok()) return response;
  const std::string message(base::FromAbsl(session.status().message()));
  if (message.find(kNoDevice) == std::string::npos) {
    return MakeError(Reason::kCompileFailed, message, "See the log of the step.");
  }
  response["message"] = message;
  return response;
}

absl::StatusOr<Json> WriteTensors(const std::vector<std::string>& names,
                                  std::span<const runtime::Tensor> tensors, const fs::path& folder,
                                  std::string_view prefix) {
  Json list = Json::array();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const fs::path file = folder / StrCat(prefix, i, ".npy");
    GQ_RETURN_IF_ERROR(runtime::WriteNpy(file, tensors[i]));
    list.push_back({{"name", names.at(i)}, {"file", file.string()}});
  }
  return list;
}

absl::StatusOr<std::vector<runtime::Tensor>> ReadTensors(const Json& list) {
  std::vector<runtime::Tensor> tensors;
  for (const Json& entry : list) {
    GQ_ASSIGN_OR_RETURN(tensors.emplace_back(),
                        runtime::ReadNpy(entry.is_object() ? Text(entry, "file") : ""));
  }
  return tensors;
}

std::vector<std::string> OutputNames(const runtime::Session& session) {
  std::vector<std::string> names;
  for (const runtime::TensorInfo& info : session.outputs()) names.push_back(info.name);
  return names;
}

absl::StatusOr<std::vector<runtime::Tensor>> ReadInputs(const Json& given,
                                                        const runtime::Session& session) {
  std::vector<runtime::Tensor> inputs;
  for (const runtime::TensorInfo& info : session.inputs()) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const Json& entry) {
      return entry.is_object() && Text(entry, "name") == info.name;
    });
    if (found == given.end()) {
      return MakeError(Reason::kDataKeyMismatch, StrCat("no data for input '", info.name, "'"));
    }
    GQ_ASSIGN_OR_RETURN(inputs.emplace_back(), runtime::ReadNpy(Text(*found, "file")));
  }
  return inputs;
}

// Samples beyond the one that is measured: their outputs, in files again.
absl::StatusOr<Json> RunMore(const Json& request, const runtime::Session& session,
                             const fs::path& folder) {
  Json all = Json::array();
  for (const Json& sample : request.value("more_inputs", Json::array())) {
    GQ_ASSIGN_OR_RETURN(const std::vector<runtime::Tensor> inputs, ReadInputs(sample, session));
    std::vector<runtime::Tensor> outputs;
    GQ_RETURN_IF_ERROR(session.Run(inputs, &outputs));
    GQ_ASSIGN_OR_RETURN(all.emplace_back(),
                        WriteTensors(OutputNames(session), outputs, folder,
                                     StrCat("sample_", all.size(), "_output_")));
  }
  return all;
}

absl::StatusOr<Json> Run(const Json& request) {
  GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, OpenLibrary(request));
  const absl::Duration start = rpc::SteadyNow();
  const auto session = runtime::Session::CreateFromFile(Text(request, "model"), OptionsOf(request));
  if (!session.ok()) {
    return MakeError(Reason::kBoardFailed, base::FromAbsl(session.status().message()));
  }
  GQ_ASSIGN_OR_RETURN(const std::vector<runtime::Tensor> inputs,
                      ReadInputs(request.value("inputs", Json::array()), *session));
  std::vector<runtime::Tensor> outputs;
  GQ_RETURN_IF_ERROR(session->Run(inputs, &outputs));
  const double setup = absl::ToDoubleSeconds(rpc::SteadyNow() - start);
  Json response = {{"setup_seconds", setup},
                   {"conditions",
                    {{"onnxruntime_version", library->version()},
                     {"provider", Text(RuntimeOf(request), "provider")},
                     {"warmup", Number(request, "warmup", 0)}}},
                   {"samples_ms", Json::array()}};
  const fs::path folder = Text(request, "output_dir");
  GQ_ASSIGN_OR_RETURN(response["outputs"],
                      WriteTensors(OutputNames(*session), outputs, folder, "output_"));
  std::vector<runtime::Tensor> scratch;
  for (int i = 1; i < static_cast<int>(Number(request, "warmup", 0)); ++i) {
    GQ_RETURN_IF_ERROR(session->Run(inputs, &scratch));
  }
  const int runs = static_cast<int>(Number(request, "runs", 1));
  const absl::Duration end =
      rpc::SteadyNow() + absl::Seconds(Number(request, "time_limit_seconds", 10));
  for (int i = 0; i < runs && (i == 0 || rpc::SteadyNow() < end); ++i) {
    const absl::Duration before = rpc::SteadyNow();
    GQ_RETURN_IF_ERROR(session->Run(inputs, &scratch));
    response["samples_ms"].push_back(absl::ToDoubleMilliseconds(rpc::SteadyNow() - before));
    std::cout << "GQ-PROGRESS " << i + 1 << " " << runs << " runs" << std::endl;
  }
  GQ_ASSIGN_OR_RETURN(response["more_outputs"], RunMore(request, *session, folder));
  return response;
}

}  // namespace

absl::StatusOr<Json> DoHarnessRequest(const Json& request) {
  const std::string action = Text(request, "action");
  if (action == "probe") return ProbeRuntime(request);
  if (action == "compile") return Compile(request);
  if (action == "run") return Run(request);
  return MakeError(Reason::kNotAvailable, StrCat("there is no action '", action, "'"),
                   "Actions: probe, compile, run.");
}

int RunHarness(const fs::path& path) {
  const absl::StatusOr<Json> request = harness::ReadHarnessRequest(path);
  if (!request.ok()) {
    std::cerr << base::FromAbsl(request.status().message()) << "\n";
    return 2;
  }
  const absl::Status written = harness::WriteHarnessResponse(*request, DoHarnessRequest(*request));
  if (written.ok()) return 0;
  std::cerr << base::FromAbsl(written.message()) << "\n";
  return 1;
}

absl::Status WriteRunInputs(const RunRequest& run, const fs::path& folder, Json& request) {
  GQ_ASSIGN_OR_RETURN(request["inputs"],
                      WriteTensors(run.input_names, run.inputs, folder, "input_"));
  Json more = Json::array();
  for (const std::vector<runtime::Tensor>& sample : run.more) {
    GQ_ASSIGN_OR_RETURN(
        more.emplace_back(),
        WriteTensors(run.input_names, sample, folder, StrCat("sample_", more.size(), "_input_")));
  }
  if (!more.empty()) request["more_inputs"] = std::move(more);
  return absl::OkStatus();
}

absl::Status ReadRunOutputs(const Json& response, BoardRun& run) {
  GQ_ASSIGN_OR_RETURN(run.outputs, ReadTensors(response.value("outputs", Json::array())));
  const Json more = response.value("more_outputs", Json::array());
  for (const Json& sample : more) {
    GQ_ASSIGN_OR_RETURN(run.more_outputs.emplace_back(), ReadTensors(sample));
  }
  return absl::OkStatus();
}

}  // namespace gq::agent
