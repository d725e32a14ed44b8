#include "common/explore/promotion.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/base/status.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/quantize/mixed_precision.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::explore {
namespace {

constexpr int64_t kLeastSharedBytes = 64;  // equal constants from this size on share a name

bool SameForm(const onnx::TensorProto& a, const onnx::TensorProto& b) {
  return a.data_type() == b.data_type() &&
         std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
}

// Gives `model` the scales, and the integers of each constant, that `from` has.
void TakeParameters(const graph::Model& from, graph::Model* model) {
  const graph::GraphIndex index(from.graph());
  const auto take = [&](const onnx::TensorProto& other, onnx::TensorProto* initializer) {
    if (const auto data = from.Data(other); data.ok()) model->SetData(*data, initializer);
  };
  onnx::GraphProto* graph = model->mutable_graph();
  std::map<std::string, onnx::TensorProto*> initializers;
  for (onnx::TensorProto& initializer : *graph->mutable_initializer()) {
    initializers[initializer.name()] = &initializer;
    const onnx::TensorProto* other = index.Initializer(initializer.name());
    if (other == nullptr || !SameForm(*other, initializer)) continue;
    if (model->DataBytes(initializer) < kLeastSharedBytes) take(*other, &initializer);
  }
  // Large constants go by the node that reads them.
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    if (!quantize::IsDequantizeNode(node) || !initializers.contains(node.input(0))) continue;
    const onnx::NodeProto* same = index.FindNode(node.name());
    const onnx::TensorProto* other = same == nullptr ? nullptr : index.Initializer(same->input(0));
    if (other == nullptr || !SameForm(*other, *initializers[node.input(0)])) continue;
    node.set_input(0, other->name());
    onnx::TensorProto*& target = initializers[other->name()];
    if (target == nullptr) {
      const auto data = from.Data(*other);
      if (data.ok()) target = model->AddInitializer(other->name(), *data);
    } else {
      take(*other, target);
    }
  }
  graph::RemoveUnusedInitializers(graph);
  model->CompactStore();
}

}  // namespace

void Promote(const quantize::Promotion& promotion, quantize::QuantizeConfig* config) {
  if (!promotion.nodes.empty() && config->scheme == "vint8") {
    config->scheme = promotion.precision == onnx::TensorProto::FLOAT16    ? "vint8+fp16"
                     : promotion.precision == onnx::TensorProto::BFLOAT16 ? "vint8+bf16"
                                                                          : "vint8";
  }
  if (promotion.precision == onnx::TensorProto::FLOAT) {
    config->exclude.insert(config->exclude.end(), promotion.nodes.begin(), promotion.nodes.end());
  } else {
    quantize::PromoteNodes(promotion.nodes, promotion.precision, promotion.form, config);
  }
}

absl::StatusOr<quantize::QuantizeResult> QuantizePromoted(
    const graph::Model& start, const graph::Model& source,
    const quantize::QuantizeConfig& source_config, const quantize::Promotion& promotion,
    runtime::DataSet& calibration, base::Reporter& reporter,
    const quantize::QuantizeInputs& inputs) {
  quantize::QuantizeConfig config = source_config;
  Promote(promotion, &config);
  GQ_ASSIGN_OR_RETURN(quantize::QuantizeResult result,
                      quantize::Quantize(source, config, calibration, reporter, inputs));
  TakeParameters(start, &result.model);
  return result;
}

}  // namespace gq::explore
