// Steps that several verbs of gq-worker have.
#pragma once

#include <filesystem>

#include "server/worker/pipeline.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "server/worker/steps/job_inputs.h"

namespace gq::worker {

// What a pipeline makes on its way to a quantized model: filled in when its steps have run.
struct QuantizedOnTheWay {
  GraphOptimizeResult optimized;
  GraphQuantizeResult quantized;
};

// The step Graph Optimize. All arguments outlive the pipeline's run.
void AddGraphOptimize(Pipeline& pipeline, const JobInputs& inputs, GraphOptimizeResult& optimized);

// The steps Graph Optimize and Graph Quantize; the quantized model is written to `output`. All
// arguments but the path outlive the pipeline's run.
void AddGraphQuantize(Pipeline& pipeline, const JobInputs& inputs,
                      const std::filesystem::path& output, QuantizedOnTheWay& models);

}  // namespace gq::worker
