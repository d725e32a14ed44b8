// What drives a board: one interface for the simulator, the vendor's tools and others.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/reporter.h"
#include "common/compile/classification.h"
#include "common/compile/compiler_options.h"
#include "common/runtime/tensor.h"

namespace gq::agent {

// A board of this agent, as it is configured.
struct BoardSpec {
  std::string name;
  std::string device;
  std::string backend = "sim";
  std::vector<std::string> tags;
  // How a simulated board misbehaves, for tests (sim_fault.h); empty for not at all.
  std::string fault;
  // What its backend has to know (docs/boards.md), e.g. `onnxruntime`, `ssh`, `command`.
  std::map<std::string, std::string> options;
};

// What a board can do, as far as it can be found out without work.
struct Probe {
  bool simulated = false;
  std::vector<std::string> capabilities;  // `compile:<backend>`, `exec:<device>`
  std::vector<std::string> schemes;       // legal on the device
  std::string facts_json = "{}";          // columns, clock, versions
  std::vector<std::string> absent;        // what is missing, and why
  // A compile leaves the files of the VAIML compiler, which are then analysed.
  bool vaiml = false;
  // A run needs what a compile left; without it there is nothing to run.
  bool runs_compiled = false;
};

struct CompileRequest {
  const BoardSpec& board;
  std::filesystem::path model;
  std::string key;              // stem of the files that are written
  std::filesystem::path cache;  // empty folder for the tool's files
  compile::Classification classification;
  compile::CompilerOptions options;
  std::filesystem::path scratch;       // folder for the backend's own files
  std::string activation_script = {};  // that the job asks for; empty for the board's
  int try_number = 1;                  // of the step, from 1
};

// The tool has run. With VAIML files, whether it succeeded is for compile::CheckCompiled to say.
struct CompileRun {
  std::vector<std::pair<std::string, double>> seconds;  // by phase
  std::string facts_json = "{}";                        // for the report: versions and the like
  // Of tools that partition a model and leave no VAIML files: `partitions`, `offload`,
  // `cpu_because` as the report has them (docs/report.md). An empty object when there is nothing.
  std::string partition_json = "{}";
};

struct RunRequest {
  const BoardSpec& board;
  std::filesystem::path model;
  compile::Classification classification;
  compile::CompilerOptions options;
  const std::vector<runtime::Tensor>& inputs;  // one sample, in the order of the model's inputs
  const std::vector<std::string>& input_names;
  const std::vector<std::string>& output_names;
  std::filesystem::path scratch;  // folder for the backend's own files
  // What a compile left, with KEY/... in it; empty when the model was not compiled.
  std::filesystem::path compiled = {};
  std::string key = {};
  std::string activation_script = {};
  int try_number = 1;
  // Further samples, run once each after the measurement, for the sake of their outputs.
  std::span<const std::vector<runtime::Tensor>> more = {};
  // Of a measurement; a simulated board gives one figure.
  int warmup = 3;
  int runs = 50;
  absl::Duration time_limit = absl::Seconds(10);  // of the measured runs together
};

struct BoardRun {
  std::vector<runtime::Tensor> outputs;  // of the sample
  // Of each further sample; empty when the backend runs one sample a call.
  std::vector<std::vector<runtime::Tensor>> more_outputs;
  std::vector<double> samples_ms;  // inference time of each run, nothing else
  // Set when `samples_ms` holds one mean over so many runs, because the tool gives no more.
  int mean_of = 0;
  double setup_seconds = 0;     // session or model load and the first run
  double waiting_seconds = 0;   // for the board, when others held it
  double transfer_seconds = 0;  // to the board and back
  // Set when the board's NPU did not run the model although it was compiled for it: why, in words.
  std::string fell_back;
  std::string conditions_json = "{}";  // what the figures hold for
};

// Implementations are thread-safe and keep no state between calls but what their headers say. Long
// work asks reporter.Cancelled() and then returns kCancelled.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // Whether its tools reach out: to a board on the network, to a licence server.
  virtual bool needs_network() const { return false; }
  // Whether a call of Run takes further samples at hardly any cost.
  virtual bool TakesManySamples(const BoardSpec& /*board*/) const { return true; }
  // Fails with kDeviceUnknown when the backend cannot drive the device.
  virtual absl::StatusOr<Probe> ProbeBoard(const BoardSpec& board) const = 0;
  // Errors: kModelInvalid and the like for the model, kToolMissing, kCancelled.
  virtual absl::StatusOr<CompileRun> Compile(const CompileRequest& request,
                                             base::Reporter& reporter) const = 0;
  // Errors: kBoardFailed, kRuntimeFailed, those of loading a model, kCancelled.
  virtual absl::StatusOr<BoardRun> Run(const RunRequest& request,
                                       base::Reporter& reporter) const = 0;
  // OK with what was checked, in words; an error says what is wrong with the board.
  virtual absl::StatusOr<std::string> CheckHealth(const BoardSpec& board,
                                                  base::Reporter& reporter) const = 0;
};

// Names of the backends there are.
std::vector<std::string> BackendNames();

// Fails with kInvalidFlag for an unknown name.
absl::StatusOr<const Backend*> FindBackend(std::string_view name);

}  // namespace gq::agent
