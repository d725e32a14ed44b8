#include "board_agent/backends/onnxruntime_backend.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "board_agent/backends/probe_model.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/steady_time.h"
#include "common/runtime/ort_library.h"
#include "common/runtime/session.h"

namespace gq::agent {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr std::string_view kXnnpack = "xnnpack";

int Threads() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

// Boards named after XNNPACK use its provider where the library has it; the CPU takes the rest.
bool UsesXnnpack(const BoardSpec& board, const runtime::OrtLibrary& library) {
  if (!board.device.starts_with(kXnnpack)) return false;
  const auto providers = library.Providers();
  return providers.ok() && std::find(providers->begin(), providers->end(),
                                     "XnnpackExecutionProvider") != providers->end();
}

std::string ProviderName(const BoardSpec& board, const runtime::OrtLibrary& library) {
  if (UsesXnnpack(board, library)) return "XNNPACK";
  return board.device.starts_with(kXnnpack) ? "CPU (this ONNX Runtime has no XNNPACK)" : "CPU";
}

// The integer kernels of this CPU are what the board is for.
runtime::SessionOptions OptionsOf(const BoardSpec& board, const runtime::OrtLibrary& library) {
  runtime::SessionOptions options;
  options.threads = Threads();
  options.disable_quant_qdq = false;
  if (UsesXnnpack(board, library)) options.providers.push_back({"XNNPACK", {}});
  return options;
}

}  // namespace

absl::StatusOr<Probe> OnnxRuntimeBackend::ProbeBoard(const BoardSpec& board) const {
  Probe probe;
  probe.schemes = {"W8-A8", "W8-A8_dynamic", "W4-A8_dynamic"};
  const auto library = runtime::OrtLibrary::Get();
  if (!library.ok()) {
    probe.absent = {StrCat("compile: ", base::FromAbsl(library.status().message()))};
    return probe;
  }
  probe.capabilities = {"compile:onnxruntime", StrCat("exec:", board.device)};
  const nlohmann::ordered_json facts = {{"device", board.device},
                                        {"onnxruntime_version", (*library)->version()},
                                        {"threads", Threads()},
                                        {"provider", ProviderName(board, **library)}};
  probe.facts_json = facts.dump();
  return probe;
}

absl::StatusOr<CompileRun> OnnxRuntimeBackend::Compile(const CompileRequest& request,
                                                       base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, runtime::OrtLibrary::Get());
  GQ_RETURN_IF_ERROR(base::MakeFolder(request.cache / request.key));
  runtime::SessionOptions options = OptionsOf(request.board, *library);
  options.optimized_model = request.cache / request.key / StrCat(request.key, "_optimized.onnx");
  reporter.Info("Compile", StrCat("Building a session of ONNX Runtime ", library->version(),
                                  " on the CPU with all optimizations"));
  const absl::Duration start = rpc::SteadyNow();
  GQ_ASSIGN_OR_RETURN(const runtime::Session session,
                      runtime::Session::CreateFromFile(request.model, options));
  CompileRun run;
  run.seconds = {{"session", absl::ToDoubleSeconds(rpc::SteadyNow() - start)}};
  const nlohmann::ordered_json facts = {{"onnxruntime_version", library->version()},
                                        {"provider", ProviderName(request.board, *library)},
                                        {"optimization", "all"},
                                        {"inputs", session.inputs().size()},
                                        {"outputs", session.outputs().size()}};
  run.facts_json = facts.dump();
  return run;
}

absl::StatusOr<BoardRun> OnnxRuntimeBackend::Run(const RunRequest& request,
                                                 base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, runtime::OrtLibrary::Get());
  const runtime::SessionOptions options = OptionsOf(request.board, *library);
  BoardRun run;
  const absl::Duration start = rpc::SteadyNow();
  GQ_ASSIGN_OR_RETURN(const runtime::Session session,
                      runtime::Session::CreateFromFile(request.model, options));
  GQ_RETURN_IF_ERROR(session.Run(request.inputs, &run.outputs));
  run.setup_seconds = absl::ToDoubleSeconds(rpc::SteadyNow() - start);
  std::vector<runtime::Tensor> scratch;
  for (int i = 1; i < request.warmup; ++i) {
    GQ_RETURN_IF_ERROR(session.Run(request.inputs, &scratch));
  }
  const absl::Duration end = rpc::SteadyNow() + request.time_limit;
  for (int i = 0; i < request.runs && (i == 0 || rpc::SteadyNow() < end); ++i) {
    if (reporter.Cancelled()) return MakeError(Reason::kCancelled, "the run was cancelled");
    const absl::Duration before = rpc::SteadyNow();
    GQ_RETURN_IF_ERROR(session.Run(request.inputs, &scratch));
    run.samples_ms.push_back(absl::ToDoubleMilliseconds(rpc::SteadyNow() - before));
    reporter.Report({"Run", i + 1, request.runs, "runs"});
  }
  for (const std::vector<runtime::Tensor>& sample : request.more) {
    if (reporter.Cancelled()) return MakeError(Reason::kCancelled, "the run was cancelled");
    GQ_RETURN_IF_ERROR(session.Run(sample, &run.more_outputs.emplace_back()));
  }
  const nlohmann::ordered_json conditions = {{"provider", ProviderName(request.board, *library)},
                                             {"onnxruntime_version", library->version()},
                                             {"threads", options.threads},
                                             {"warmup", request.warmup}};
  run.conditions_json = conditions.dump();
  return run;
}

absl::StatusOr<std::string> OnnxRuntimeBackend::CheckHealth(const BoardSpec& /*board*/,
                                                            base::Reporter& /*reporter*/) const {
  GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, runtime::OrtLibrary::Get());
  GQ_ASSIGN_OR_RETURN(const graph::Model model, MakeProbeModel());
  GQ_ASSIGN_OR_RETURN(const runtime::Session session, runtime::Session::Create(model));
  constexpr size_t kPixels = 64;
  const std::vector<float> ones(3 * kPixels, 1.0F);
  const runtime::Tensor input = runtime::Tensor::Of<float>({1, 3, 8, 8}, ones);
  std::vector<runtime::Tensor> outputs;
  GQ_RETURN_IF_ERROR(session.Run({&input, 1}, &outputs));
  constexpr std::array kExpected = {0.0F, 0.0F, 0.75F, 3.0F};
  const auto values = outputs.at(0).As<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == kExpected[i / kPixels % kExpected.size()]) continue;
    return MakeError(Reason::kBoardFailed, "the built-in model gave a wrong result");
  }
  return StrCat("ran the built-in model on ONNX Runtime ", library->version());
}

}  // namespace gq::agent
