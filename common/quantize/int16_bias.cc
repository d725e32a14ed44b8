#include "common/quantize/int16_bias.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/graph/opset.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {
namespace {

bool HasBias(const onnx::NodeProto& node) {
  static const auto* const kTypes = new absl::flat_hash_set<std::string>{"Conv",
                                                                         "ConvTranspose",
                                                                         "Gemm",
                                                                         "LayerNormalization",
                                                                         "InstanceNormalization",
                                                                         "BatchNormalization"};
  return node.input_size() > 2 && kTypes->contains(node.op_type());
}

// Of int32 elements only.
bool Narrow(const std::string& name, const InitializerMap& initializers) {
  onnx::TensorProto* tensor = initializers.Find(name);
  if (tensor == nullptr || tensor->data_type() != onnx::TensorProto::INT32) return false;
  const auto data = initializers.model().Data(*tensor);
  if (!data.ok()) return false;
  std::vector<int16_t> values;
  for (const int32_t value : data->As<int32_t>()) {
    values.push_back(static_cast<int16_t>(std::clamp(value, -32768, 32767)));
  }
  const auto dims = data->dims();
  initializers.model().SetData(graph::TensorView::Of<int16_t>(dims, values), tensor);
  return true;
}

}  // namespace

absl::StatusOr<int> UseInt16Bias::Run(QuantizeContext& context) const {
  GQ_RETURN_IF_ERROR(graph::ConvertOpset(21, &context.model).status());
  const graph::GraphIndex index(context.model.graph());
  const InitializerMap initializers(context.model);
  int changed = 0;
  for (const auto& node : context.model.graph().node()) {
    if (!HasBias(node)) continue;
    const onnx::NodeProto* dequantize = index.Producer(node.input(2));
    if (dequantize == nullptr || !IsDequantizeNode(*dequantize) || dequantize->input_size() != 3) {
      continue;
    }
    changed += Narrow(dequantize->input(0), initializers) ? 1 : 0;
    Narrow(dequantize->input(2), initializers);
  }
  return changed;
}

}  // namespace gq::quantize
