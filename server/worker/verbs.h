// One step's work or several in the foreground: `gq-worker quantize ...` and its kin.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/job/flags.h"

namespace gq::worker {

// What gq-worker takes beside the flags of a job.
struct VerbOptions {
  std::string output;     // --output; empty: MODEL_quantized.onnx in the current folder
  std::string report;     // --report; empty: none
  bool evaluate = false;  // --evaluate
};

// Each runs to the end and returns the exit code of a finished run: 0, or 10 when the goal was not
// met. The log goes to standard output; an error is returned, after it was logged, with no file
// left behind.
absl::StatusOr<int> Analyze(const job::JobRequest& request, const VerbOptions& options);
absl::StatusOr<int> Quantize(const job::JobRequest& request, const VerbOptions& options);
absl::StatusOr<int> Dequantize(const job::JobRequest& request, const VerbOptions& options);
absl::StatusOr<int> Requantize(const job::JobRequest& request, const VerbOptions& options);
absl::StatusOr<int> Evaluate(const job::JobRequest& request, const VerbOptions& options);
absl::StatusOr<int> DryRun(const job::JobRequest& request, const VerbOptions& options);
absl::StatusOr<int> Explore(const job::JobRequest& request, const VerbOptions& options);

}  // namespace gq::worker
