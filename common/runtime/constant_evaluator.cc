#include "common/runtime/constant_evaluator.h"

#include "common/base/status.h"
#include "common/base/temporary_folder.h"
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

absl::StatusOr<graph::Model> OrtConstantEvaluator::OptimizeBasic(const graph::Model& model) {
  // Through files, as ONNX Runtime writes what it made only there.
  GQ_ASSIGN_OR_RETURN(const base::TemporaryFolder folder,
                      base::TemporaryFolder::Make("gq-optimize-"));
  const auto before = folder.path() / "model.onnx", after = folder.path() / "optimized.onnx";
  GQ_RETURN_IF_ERROR(graph::SaveModel(model, before));
  SessionOptions options;
  options.optimization = OptimizationLevel::kBasic;
  options.arena = false;
  options.disable_quant_qdq = false;
  options.optimized_model = after;
  // It would rename constants.
  options.config.emplace_back("optimization.disable_specified_optimizers", "ConstantSharing");
  GQ_RETURN_IF_ERROR(Session::CreateFromFile(before, options).status());
  return graph::LoadModel(after, {.check = false, .normalize = false});
}

}  // namespace gq::runtime
