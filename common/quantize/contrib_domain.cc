#include "common/quantize/contrib_domain.h"

#include "common/quantize/names.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {
namespace {

bool IsZero(const graph::Model& model, const onnx::TensorProto& tensor) {
  const auto data = model.Data(tensor);
  if (!data.ok()) return false;
  for (int64_t i = 0; i < data->size(); ++i) {
    if (data->At(i) != 0) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<int> UseContribDomain::Run(QuantizeContext& context) const {
  const InitializerMap initializers(context.model);
  int changed = 0;
  for (auto& node : *context.model.mutable_graph()->mutable_node()) {
    if (node.domain() != kQuarkDomain || !IsQdqNode(node) || node.input_size() < 3) continue;
    const onnx::TensorProto* zero_point = initializers.Find(node.input(2));
    if (zero_point == nullptr || !graph::IsIntegerType(zero_point->data_type())) continue;
    const bool quantize = IsQuantizeNode(node);
    if (zero_point->data_type() == onnx::TensorProto::INT32 &&
        (quantize || !IsZero(context.model, *zero_point))) {
      continue;
    }
    node.set_op_type(quantize ? "QuantizeLinear" : "DequantizeLinear");
    node.set_domain(std::string(kMicrosoftDomain));
    ++changed;
  }
  return changed;
}

}  // namespace gq::quantize
