// Runs the cases of a folder of golden vectors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/conformance/comparison.h"

namespace gq::conformance {

struct RunOptions {
  std::vector<std::string> configurations;  // empty: all
  std::vector<std::string> cases;           // empty: all
  bool from_model = false;                  // start from model.onnx instead of the prepared model
  bool expected_ranges = false;  // quantize with the vectors' ranges instead of calibrating
  std::filesystem::path emit;    // where to write the models; empty: nowhere
};

enum class Outcome { kAgrees, kDiffers, kUnsupported };

struct RunResult {
  std::string case_name;
  std::string configuration;
  Outcome outcome = Outcome::kAgrees;
  Verdict verdict;
  std::string note;  // why it is unsupported, or how a failure was matched
};

// Calls `done` after each run. FILE_NOT_FOUND or DATA_INVALID when the folder is no set of vectors,
// INVALID_FLAG when options name what it does not have.
absl::Status RunVectors(const std::filesystem::path& folder, const RunOptions& options,
                        const std::function<void(const RunResult&)>& done);

}  // namespace gq::conformance
