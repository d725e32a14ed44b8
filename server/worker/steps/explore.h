// The step Explore: the search for the smallest set of higher-precision layers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/explore/journal.h"
#include "common/graph/model.h"
#include "common/quantize/recover/recovery_source.h"
#include "gq/v1/job_service.pb.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

// What the steps before made.
struct ExploreStart {
  const graph::Model& quantized;
  const nlohmann::json& quantize_report;  // fragment `graph_quantize`
  const nlohmann::json& evaluate_report;  // fragment `evaluate`; may be empty
  // What `quantized` was made from; null: recovery is repeated where the search needs it.
  const quantize::RecoverySource* source = nullptr;
};

struct ExploreFiles {
  std::filesystem::path model;  // where the best model goes
  // Where candidates go: NN/quark_config.json of every row, NN/model_quantized.onnx and
  // NN/report.json (its part `graph_quantize`) of those of the Pareto set. Empty: nowhere.
  std::filesystem::path iterations;
};

struct ExploreResult {
  std::string config_json;  // Quark JSON of the best
  nlohmann::json report;    // fragment `explore`
  gq::v1::Verdict verdict = gq::v1::VERDICT_NOT_JUDGED;
};

// Searches from what Graph Quantize made; `earlier` are the records of a try that was broken off.
// The report holds under `result` what the fragments `graph_quantize` and `evaluate` are for the
// best model. Errors: SCHEME_ILLEGAL for a scheme without static integer layers, INVALID_FLAG, and
// those of ChooseStrategy, DataSet and explore::Explore.
absl::StatusOr<ExploreResult> RunExplore(const JobInputs& inputs,
                                         const GraphOptimizeResult& optimized,
                                         const ExploreStart& start, const ExploreFiles& files,
                                         const std::vector<explore::IterationRecord>& earlier,
                                         explore::Journal& journal, StepLog& log);

// Reads what a request says about a search that can be wrong, before any work. INVALID_FLAG.
absl::Status CheckSearch(const gq::v1::JobSpec& spec);

gq::v1::Iteration ToIteration(const explore::IterationRecord& record, int step_index);
explore::IterationRecord FromIteration(const gq::v1::Iteration& iteration);

}  // namespace gq::worker
