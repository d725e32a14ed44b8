#include "common/quantize/weight_check.h"

#include <cmath>
#include <string>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"

namespace gq::quantize {
namespace {

absl::Status CheckWeight(const graph::Model& model, const onnx::TensorProto& weight,
                         const onnx::NodeProto& node) {
  GQ_ASSIGN_OR_RETURN(const graph::TensorView view, model.Data(weight));
  const auto values = view.As<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return base::MakeError(
        base::Reason::kModelInvalid,
        base::StrCat("element ", i, " of the constant '", weight.name(), "' of ", node.op_type(),
                     " node '", node.name(), "' is ", std::isnan(values[i]) ? "NaN" : "infinite"),
        "Its results cannot be used in float either; train or export the model again.");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWeights(const graph::Model& model, const graph::GraphIndex& index) {
  for (const auto& node : model.graph().node()) {
    if (!graph::IsComputeNode(node)) continue;
    for (const auto& input : node.input()) {
      const onnx::TensorProto* weight = index.Initializer(input);
      if (weight == nullptr || weight->data_type() != onnx::TensorProto::FLOAT) continue;
      GQ_RETURN_IF_ERROR(CheckWeight(model, *weight, node));
    }
  }
  return absl::OkStatus();
}

}  // namespace gq::quantize
