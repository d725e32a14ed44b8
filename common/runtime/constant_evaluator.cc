#include "common/runtime/constant_evaluator.h"

#include "common/base/status.h"
#include "common/runtime/session.h"

namespace gq::runtime {

absl::StatusOr<std::vector<graph::TensorView>> OrtConstantEvaluator::Evaluate(
    const graph::Model& model) {
  // Nothing is optimized: the model runs once.
  GQ_ASSIGN_OR_RETURN(
      const Session session,
      Session::Create(model,
                      {.optimization = OptimizationLevel::kNone, .threads = 1, .arena = false}));
  std::vector<Tensor> outputs;
  GQ_RETURN_IF_ERROR(session.Run({}, &outputs));
  std::vector<graph::TensorView> views;
  views.reserve(outputs.size());
  for (const Tensor& output : outputs) views.push_back(output.View());
  return views;
}

}  // namespace gq::runtime
