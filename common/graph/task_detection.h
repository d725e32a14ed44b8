// What a model is for, as far as its graph tells.
#pragma once

#include <string>

#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::graph {

struct TaskGuess {
  TaskType task = TaskType::kRegression;
  std::string reason;  // the evidence, for the report
};

// The rules of workflow.md "Verdict by task type", strongest evidence first: operators of detection
// near the outputs; ArgMax or Softmax over the channels of an image; one output of [N, C] behind a
// dense layer, a pool or a Softmax. Everything else is regression, where each output is judged on
// its own.
TaskGuess DetectTask(const GraphIndex& index);

}  // namespace gq::graph
