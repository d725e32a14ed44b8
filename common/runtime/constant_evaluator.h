// Values of constant expressions, computed by ONNX Runtime.
#pragma once

#include <vector>

#include "common/graph/constant_evaluator.h"

namespace gq::runtime {

// Thread-safe. RUNTIME_MISSING, RUNTIME_FAILED.
class OrtConstantEvaluator : public graph::ConstantEvaluator {
 public:
  absl::StatusOr<std::vector<graph::TensorView>> Evaluate(const graph::Model& model) override;
  absl::StatusOr<graph::Model> OptimizeBasic(const graph::Model& model) override;
};

}  // namespace gq::runtime
