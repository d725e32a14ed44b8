// How graph/ gets values of constant expressions without knowing who computes them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/graph/tensor_view.h"

namespace gq::graph {

class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;

  // Runs a model without inputs and returns its outputs in their order. Called with small,
  // short-lived models; errors leave the caller's graph as it was.
  virtual absl::StatusOr<std::vector<TensorView>> Evaluate(const Model& model) = 0;
};

}  // namespace gq::graph
