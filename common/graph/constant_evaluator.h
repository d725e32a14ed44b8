// How graph/ gets values of constant expressions without knowing who computes them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/model.h"
#include "common/graph/tensor_view.h"

namespace gq::graph {

class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;

  // Runs a model without inputs and returns its outputs in their order. Called with small,
  // short-lived models; errors leave the caller's graph as it was.
  virtual absl::StatusOr<std::vector<TensorView>> Evaluate(const Model& model) = 0;

  // The model as ONNX Runtime's basic optimization leaves it, constants shared as they were.
  // NOT_AVAILABLE from an evaluator that has no such thing.
  virtual absl::StatusOr<Model> OptimizeBasic(const Model& model) {
    return base::MakeError(
        base::Reason::kNotAvailable,
        base::StrCat("nothing optimizes a graph of ", model.graph().node_size(), " nodes here"));
  }
};

}  // namespace gq::graph
