// The step Graph Quantize: from the optimized float model and calibration data to the quantized
// one.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/recovery_source.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

struct GraphQuantizeResult {
  graph::Model emitted;     // the file that was written, loaded again
  std::string config_json;  // Quark JSON that repeats the result
  nlohmann::json report;    // fragment `graph_quantize`
  // What the integers of the result stand for; the float model where recovery edited nothing.
  quantize::RecoverySource source;
};

// How a result lies on disk: as the user's model did, its data file named after the new model.
graph::SaveOptions LayoutFor(const graph::Model& user_model, const std::filesystem::path& output);

// Quantizes `optimized.float_model` and writes the result to `output` (with external data beside it
// when the user's model had it). The file is loaded again and compared with the model in memory,
// which the quantizer has run on one sample. On an error nothing stays at `output`. Errors: those
// of ChooseStrategy, DataSet, Quantize and SaveModel; SANITY_CHECK_FAILED when the file holds
// something else.
absl::StatusOr<GraphQuantizeResult> RunGraphQuantize(const JobInputs& inputs,
                                                     const GraphOptimizeResult& optimized,
                                                     const std::filesystem::path& output,
                                                     StepLog& log);

}  // namespace gq::worker
