#include "server/worker/verb_steps.h"

#include "common/base/status.h"

namespace gq::worker {

using nlohmann::json;

void AddGraphOptimize(Pipeline& pipeline, const JobInputs& inputs, GraphOptimizeResult& optimized) {
  pipeline.Add(gq::v1::STEP_KIND_GRAPH_OPTIMIZE, "Graph Optimize",
               [&](StepLog& log) -> absl::StatusOr<json> {
                 GQ_ASSIGN_OR_RETURN(optimized, RunGraphOptimize(inputs, log));
                 return optimized.report;
               });
}

void AddGraphQuantize(Pipeline& pipeline, const JobInputs& inputs,
                      const std::filesystem::path& output, QuantizedOnTheWay& models) {
  AddGraphOptimize(pipeline, inputs, models.optimized);
  pipeline.Add(gq::v1::STEP_KIND_GRAPH_QUANTIZE, "Graph Quantize",
               [&inputs, &models, output](StepLog& log) -> absl::StatusOr<json> {
                 GQ_ASSIGN_OR_RETURN(models.quantized,
                                     RunGraphQuantize(inputs, models.optimized, output, log));
                 return models.quantized.report;
               });
}

}  // namespace gq::worker
