// The step Graph Optimize: from the user's file to a static, simplified float model.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "nlohmann/json.hpp"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

struct GraphOptimizeResult {
  graph::Model user_model;   // as loaded: names in configurations mean its nodes
  graph::Model float_model;  // what is calibrated, quantized and measured against
  std::map<std::string, std::string> renamed_nodes;  // user's node -> node that does its work
  graph::TaskType task = graph::TaskType::kRegression;
  nlohmann::json report;  // fragment `graph_optimize`
};

// Loads and analyses the model, pins its shapes, optimizes it and checks on one sample that it
// still computes the same. ALREADY_QUANTIZED for a model that is quantized; else the errors of
// LoadModel, OptimizeGraph, ChooseStrategy, DataSet and CheckEquivalence.
absl::StatusOr<GraphOptimizeResult> RunGraphOptimize(const JobInputs& inputs, StepLog& log);

// What Graph Optimize gives in a job without that step: the model itself, its shapes static. Its
// report is empty. Errors: ALREADY_QUANTIZED and those of LoadStatic.
absl::StatusOr<GraphOptimizeResult> TakeModelAsItIs(const JobInputs& inputs, StepLog& log);

// Loads a model and makes its shapes static, without any other change; for models that are compared
// or looked at as they are.
absl::StatusOr<graph::Model> LoadStatic(const std::filesystem::path& path, const JobInputs& inputs,
                                        base::Reporter& reporter, bool check = true);

// Task type that the request names, else `detected`.
graph::TaskType TaskOf(const gq::v1::JobSpec& spec, graph::TaskType detected);

// One sentence about the size and the state of a model, for the log.
std::string DescribeModel(const graph::Analysis& analysis);

}  // namespace gq::worker
