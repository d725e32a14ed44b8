// The quantization that a request asks for, or, without a configuration, the one that follows from
// the structure of the model (workflow.md, "The strategy when no config is given").
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/graph/optimize.h"
#include "common/quantize/config.h"
#include "common/quantize/recover/recover.h"
#include "gq/v1/job_service.pb.h"

namespace gq::worker {

struct Strategy {
  quantize::QuantizeConfig config;
  // What is done and why, one sentence each; for the log, before it is applied, and the report.
  std::vector<std::string> sentences;
  // Accuracy recovery: --recover, else on where nobody gave a configuration.
  quantize::RecoverOptions recover;
  // The residual stream of this transformer is still to be judged on data (transformer.h).
  bool judge_residuals = false;
  // What the reader of a configuration let pass.
  std::vector<std::string> warnings;
};

// `user_model` is the model as it was loaded: names in the configuration mean its nodes.
// `float_model` is the optimized one, null before it was made: what follows from the structure
// (attention, head and tail) is read there, since fusions and folded shapes show it. Errors:
// CONFIG_INVALID, SCHEME_ILLEGAL (for the device), INVALID_FLAG (a calibration method that the
// scheme cannot use, flags that contradict one another), PATTERN_UNMATCHED.
absl::StatusOr<Strategy> ChooseStrategy(const gq::v1::JobSpec& spec, const graph::Model& user_model,
                                        graph::TaskType task,
                                        const graph::Model* float_model = nullptr);

// How the float model is prepared for `config`; the shapes come from `spec`. INVALID_FLAG for a
// shape that cannot be read.
absl::StatusOr<graph::OptimizeOptions> OptimizeOptionsFor(const gq::v1::JobSpec& spec,
                                                          const quantize::QuantizeConfig& config);

// `--input-shape` values as shapes by input. INVALID_FLAG.
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> PinnedShapes(
    const gq::v1::JobSpec& spec);

// The scheme that `device` takes when none is asked for; empty device: ve2.
std::string DefaultScheme(const std::string& device);

}  // namespace gq::worker
