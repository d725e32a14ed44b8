// Running models on a board: one sample for the time it takes, further ones for their outputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "board_agent/backends/backend.h"
#include "board_agent/latency_figures.h"
#include "common/accuracy/evaluate.h"
#include "common/rpc/step_program.h"
#include "common/runtime/data_set.h"
#include "common/runtime/tensor.h"

namespace gq::agent {

// A model that a board can run.
struct BoardModel {
  std::filesystem::path path;
  std::string what;  // for the log: `the model`, `candidate 12`
  // Folder with KEY/... that Compile left; empty when there is none.
  std::filesystem::path compiled = {};
  // The part of Compile about this model, for the options it was compiled with; null for none.
  nlohmann::ordered_json compile_part = nullptr;
};

// One model on the board.
struct Measured {
  BoardRun run;
  LatencyFigures latency;
  std::vector<std::string> output_names;
  std::string model_class;

  int runs() const {
    return run.mean_of > 0 ? run.mean_of : static_cast<int>(run.samples_ms.size());
  }
};

// The percentiles and the rest as the report has them; a single figure has no distribution.
nlohmann::ordered_json LatencyJson(const Measured& measured);

// What a Board Run step measures with: the board, and the job's data. Everything given must outlive
// it.
class BoardMeasurement {
 public:
  BoardMeasurement(const rpc::StepContext& context, const BoardSpec& board, const Backend& backend)
      : context_(context), board_(board), backend_(backend) {}

  // Probes the board and reads the first sample of the evaluation data (else the calibration data,
  // else seeded random data) for the inputs of `model`. Before everything else.
  absl::Status Open(const std::filesystem::path& model);

  // Errors: kBoardFailed, those of loading a model, kCancelled.
  absl::StatusOr<Measured> Measure(const BoardModel& model);

  // The part of the report about one model.
  nlohmann::ordered_json Describe(const Measured& measured) const;

  // Adds `outputs` to the report: what the board computed for the sample against what this CPU
  // computes with the same model. kBoardFailed when it is something else.
  absl::Status CompareWithCpu(const BoardModel& model, const Measured& measured,
                              nlohmann::ordered_json& report);

  // Judges by `options` what the board computes for all samples against the reference. A board that
  // takes one sample a call computes 16 of them. Errors: those of accuracy::Evaluate and Measure.
  absl::StatusOr<accuracy::Evaluation> Evaluate(const BoardModel& model, const Measured& measured,
                                                accuracy::Baseline& reference,
                                                accuracy::EvaluateOptions options);

  const Probe& probe() const { return probe_; }
  const BoardSpec& board() const { return board_; }
  const rpc::StepContext& context() const { return context_; }
  // ` (simulated)` for a simulated board.
  std::string Simulated() const { return probe_.simulated ? " (simulated)" : ""; }
  void Warn(std::string text);
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class BoardRunner;
  absl::StatusOr<std::unique_ptr<runtime::DataSet>> OpenData() const;
  absl::StatusOr<RunRequest> Request(const BoardModel& model,
                                     const std::vector<std::string>& output_names,
                                     const std::vector<runtime::Tensor>& inputs,
                                     std::string* model_class);

  const rpc::StepContext& context_;
  const BoardSpec& board_;
  const Backend& backend_;
  Probe probe_;
  std::vector<runtime::InputSpec> inputs_;
  std::vector<std::filesystem::path> files_;
  std::vector<runtime::Tensor> sample_;
  std::vector<std::string> input_names_;
  std::vector<std::string> input_text_;
  std::string source_;
  int scratches_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace gq::agent
