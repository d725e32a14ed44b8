#include "board_agent/backends/sim/sim_backend.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "board_agent/backends/probe_model.h"
#include "board_agent/backends/sim/sim_fault.h"
#include "board_agent/backends/sim/sim_files.h"
#include "board_agent/backends/sim/sim_partition.h"
#include "board_agent/backends/sim/sim_roofline.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/compile_output.h"
#include "common/compile/device.h"
#include "common/compile/partition_report.h"
#include "common/graph/analysis.h"
#include "common/graph/shape_inference.h"
#include "common/rpc/steady_time.h"
#include "common/runtime/session.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr std::string_view kEthos = "ethos-u";
constexpr int kClockMhz = 1267;
constexpr useconds_t kPollMicroseconds = 20000;

absl::Status Cancelled() { return MakeError(Reason::kCancelled, "the compile was cancelled"); }

// Waits in small pieces; false when the work is to stop.
bool Linger(absl::Duration duration, const base::Reporter& reporter) {
  const absl::Duration end = rpc::SteadyNow() + duration;
  while (rpc::SteadyNow() < end) {
    if (reporter.Cancelled()) return false;
    ::usleep(kPollMicroseconds);
  }
  return !reporter.Cancelled();
}

absl::Status Misbehave(SimFault fault, int try_number, const base::Reporter& reporter) {
  switch (fault) {
    case SimFault::kSlow:
      return Linger(absl::Seconds(1), reporter) ? absl::OkStatus() : Cancelled();
    case SimFault::kHang:
      (void)Linger(absl::InfiniteDuration(), reporter);
      return Cancelled();
    case SimFault::kFlaky:
      if (try_number % 2 == 0) return absl::OkStatus();
      [[fallthrough]];
    case SimFault::kCrash:
      ::raise(SIGKILL);
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

// Makes the result look like one of a tool that failed in silence.
absl::Status Spoil(SimFault fault, const fs::path& folder, std::string_view key) {
  if (fault == SimFault::kSilentFallback) {
    std::error_code error;
    fs::remove(folder / StrCat(key, ".rai"), error);
  }
  if (fault != SimFault::kErrorLines) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(std::string log, base::ReadFile(folder / "AIECompiler.log"));
  log += "ERROR: [aiecompiler 77-1234] simulated failure\n";
  return base::WriteFileAtomically(folder / "AIECompiler.log", log);
}

std::string FactsJson(const compile::DeviceInfo& device) {
  const nlohmann::ordered_json facts = {{"simulated", true},
                                        {"part", device.part},
                                        {"columns", device.columns},
                                        {"clock_mhz", kClockMhz},
                                        {"version", GQ_VERSION}};
  return facts.dump();
}

absl::StatusOr<graph::Model> LoadWithShapes(const fs::path& path) {
  GQ_ASSIGN_OR_RETURN(graph::Model model, graph::LoadModel(path));
  GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, &model));
  return model;
}

void ToZero(std::vector<runtime::Tensor>& outputs) {
  for (runtime::Tensor& output : outputs) {
    runtime::Tensor wrong(output.dtype(), output.shape());
    output = std::move(wrong);
  }
}

bool IsEthos(std::string_view device) { return device.starts_with(kEthos); }

}  // namespace

bool SimBackend::IsFirstCheck(const std::string& board) const {
  absl::MutexLock lock(&mutex_);
  return ++checks_[board] == 1;
}

absl::StatusOr<Probe> SimBackend::ProbeBoard(const BoardSpec& board) const {
  GQ_RETURN_IF_ERROR(ParseSimFault(board.fault).status());
  Probe probe;
  probe.simulated = true;
  probe.capabilities = {"compile:sim"};
  if (IsEthos(board.device)) {
    probe.schemes = {"W8-A8", "W8-A16"};
    probe.facts_json = R"({"simulated":true,"checks_only":true})";
    probe.absent = {StrCat("compile: no compiler for ", board.device, "; models are checked only"),
                    "exec: nothing runs on this board"};
    return probe;
  }
  const auto device = compile::FindDevice(board.device);
  if (!device) {
    return MakeError(
        Reason::kDeviceUnknown,
        StrCat("board ", board.name, ": the simulator has no device '", board.device, "'"),
        "Devices: ve2-sim, ve2-xc2ve3858, ve2-xc2ve3558, ve2-xc2ve3358, ethos-u-*.");
  }
  probe.vaiml = true;
  probe.capabilities.push_back(StrCat("exec:", board.device));
  probe.schemes = {"vint8", "bf16", "fp16", "vint8+bf16", "vint8+fp16", "xint8"};
  probe.facts_json = FactsJson(*device);
  return probe;
}

absl::StatusOr<CompileRun> SimBackend::Compile(const CompileRequest& request,
                                               base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const SimFault fault, ParseSimFault(request.board.fault));
  GQ_RETURN_IF_ERROR(Misbehave(fault, request.try_number, reporter));
  const absl::Duration start = rpc::SteadyNow();
  GQ_ASSIGN_OR_RETURN(const graph::Model model, LoadWithShapes(request.model));
  const absl::Duration loaded = rpc::SteadyNow();
  if (reporter.Cancelled()) return Cancelled();
  const SimPartitioning partitioning =
      PartitionForSim(model, request.classification, request.options);
  const absl::Duration partitioned = rpc::SteadyNow();

  SimTimes times;
  times.frontend = absl::ToDoubleSeconds(loaded - start);
  times.backend = absl::ToDoubleSeconds(partitioned - loaded);
  const fs::path folder = request.cache / request.key;
  GQ_RETURN_IF_ERROR(WriteSimFiles(
      folder, SimFilesInput{model, request.model.filename().string(), request.key,
                            request.classification, request.options, partitioning, times}));
  GQ_RETURN_IF_ERROR(Spoil(fault, folder, request.key));
  CompileRun run;
  run.seconds = {{"frontend", times.frontend},
                 {"backend", times.backend},
                 {"write", absl::ToDoubleSeconds(rpc::SteadyNow() - partitioned)}};
  return run;
}

absl::StatusOr<BoardRun> SimBackend::Run(const RunRequest& request,
                                         base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const SimFault fault, ParseSimFault(request.board.fault));
  GQ_RETURN_IF_ERROR(Misbehave(fault, request.try_number, reporter));
  const absl::Duration start = rpc::SteadyNow();
  GQ_ASSIGN_OR_RETURN(const graph::Model model, LoadWithShapes(request.model));
  const SimPartitioning partitioning =
      PartitionForSim(model, request.classification, request.options);
  const SimLatency latency = EstimateLatency(model, partitioning, request.options);

  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  GQ_ASSIGN_OR_RETURN(const runtime::Session session, runtime::Session::Create(model, options));
  BoardRun run;
  GQ_RETURN_IF_ERROR(session.Run(request.inputs, &run.outputs));
  if (reporter.Cancelled()) return Cancelled();
  for (const std::vector<runtime::Tensor>& sample : request.more) {
    if (reporter.Cancelled()) return Cancelled();
    GQ_RETURN_IF_ERROR(session.Run(sample, &run.more_outputs.emplace_back()));
  }
  if (fault == SimFault::kWrongOutput) {
    ToZero(run.outputs);
    for (std::vector<runtime::Tensor>& outputs : run.more_outputs) ToZero(outputs);
  }
  run.setup_seconds = absl::ToDoubleSeconds(rpc::SteadyNow() - start);
  run.samples_ms = {latency.milliseconds};
  run.conditions_json = latency.conditions_json;
  return run;
}

absl::StatusOr<std::string> SimBackend::CheckHealth(const BoardSpec& board,
                                                    base::Reporter& reporter) const {
  GQ_ASSIGN_OR_RETURN(const SimFault fault, ParseSimFault(board.fault));
  if (fault == SimFault::kUnhealthy) {
    return MakeError(Reason::kBoardFailed, "the simulated board is told to be unhealthy");
  }
  const bool breaks =
      fault == SimFault::kHang || fault == SimFault::kCrash || fault == SimFault::kWrongOutput;
  if (breaks && !IsFirstCheck(board.name)) {
    return MakeError(Reason::kBoardFailed,
                     StrCat("the built-in model fails: the simulated board is told to ",
                            fault == SimFault::kHang    ? "hang"
                            : fault == SimFault::kCrash ? "crash"
                                                        : "compute wrong"));
  }
  if (IsEthos(board.device)) return "the checks of the simulated Ethos-U are available";
  GQ_ASSIGN_OR_RETURN(const graph::Model model, MakeProbeModel());
  if (reporter.Cancelled()) return Cancelled();
  const compile::Classification classification = compile::Classify(graph::Analyze(model));
  const compile::CompilerOptions options = compile::DefaultOptions(classification, board.device);
  GQ_RETURN_IF_ERROR(compile::CheckOptions(options));
  const SimPartitioning partitioning = PartitionForSim(model, classification, options);
  if (partitioning.offloaded_nodes() != model.graph().node_size()) {
    return MakeError(Reason::kBoardFailed, "the built-in model was not offloaded as a whole");
  }
  return StrCat("compiled the built-in model (", model.graph().node_size(),
                " operators, all offloaded); simulated");
}

}  // namespace gq::agent
