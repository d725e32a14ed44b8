#include "common/quantize/dequantize/dequantize.h"

#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/float_conversion.h"
#include "common/graph/shape_inference.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::IsOp;
using graph::Model;
using graph::TensorView;
using onnx::TensorProto;

// bfloat16 constants, types and casts become float32 ones: no operator of a float model computes in
// it.
class BFloat16Remover {
 public:
  explicit BFloat16Remover(Model* model) : model_(model) {}

  absl::Status Run() {
    for (auto& tensor : *model_->mutable_graph()->mutable_initializer()) {
      if (tensor.data_type() != TensorProto::BFLOAT16) continue;
      GQ_ASSIGN_OR_RETURN(const TensorView view, model_->Data(tensor));
      GQ_ASSIGN_OR_RETURN(const std::vector<float> values, view.ToFloats());
      model_->SetData(TensorView::Of<float>(view.dims(), values), &tensor);
    }
    return Graph(model_->mutable_graph(), /*main=*/true);
  }

 private:
  absl::Status Inline(TensorProto* tensor) {
    if (tensor->data_type() != TensorProto::BFLOAT16) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const TensorView view, model_->Data(*tensor));
    GQ_ASSIGN_OR_RETURN(const std::vector<float> values, view.ToFloats());
    const std::string name = tensor->name();
    const std::vector<int64_t>& dims = view.dims();
    tensor->Clear();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::FLOAT);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    return absl::OkStatus();
  }

  absl::Status Graph(onnx::GraphProto* graph, bool main) {
    for (auto* infos : {graph->mutable_input(), graph->mutable_output()}) {
      for (auto& info : *infos) {
        auto* type = info.mutable_type()->mutable_tensor_type();
        if (type->elem_type() == TensorProto::BFLOAT16) type->set_elem_type(TensorProto::FLOAT);
      }
    }
    if (!main) {
      for (auto& tensor : *graph->mutable_initializer()) GQ_RETURN_IF_ERROR(Inline(&tensor));
    }
    for (auto& node : *graph->mutable_node()) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_t()) GQ_RETURN_IF_ERROR(Inline(attribute.mutable_t()));
        const bool is_type = attribute.name() == "to" || attribute.name() == "dtype";
        if (is_type && attribute.i() == TensorProto::BFLOAT16) attribute.set_i(TensorProto::FLOAT);
      }
      absl::Status status;
      graph::ForEachMutableSubgraph(
          &node, [&](onnx::GraphProto* inner) { status.Update(Graph(inner, false)); });
      GQ_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  Model* model_;
};

// Casts of float32 to float32 that the conversions left.
void RemoveIdleCasts(onnx::GraphProto* graph) {
  for (int i = graph->node_size() - 1; i >= 0; --i) {
    const auto& node = graph->node(i);
    if (!IsOp(node, "Cast") || graph::AttributeInt(node, "to", 0) != TensorProto::FLOAT) {
      continue;
    }
    const graph::GraphIndex index(*graph);
    const std::string input = node.input(0);
    const auto* constant = index.Initializer(input);
    const int32_t type = constant != nullptr ? constant->data_type() : index.ElemType(input);
    if (type == TensorProto::FLOAT) graph::BypassNode(i, input, graph);
  }
}

void CollectDomains(const onnx::GraphProto& graph, std::set<std::string>* domains) {
  for (const auto& node : graph.node()) {
    domains->insert(node.domain() == "ai.onnx" ? "" : node.domain());
    graph::ForEachSubgraph(node, [&](const auto& inner) { CollectDomains(inner, domains); });
  }
}

// Imports and properties that speak of the quantization.
void CleanHeader(onnx::ModelProto* proto) {
  std::set<std::string> domains = {""};
  CollectDomains(proto->graph(), &domains);
  google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports;
  for (auto& import : *proto->mutable_opset_import()) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    if (domains.contains(domain)) imports.Add(std::move(import));
  }
  proto->mutable_opset_import()->Swap(&imports);
  google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> properties;
  for (auto& entry : *proto->mutable_metadata_props()) {
    const bool stale = entry.key() == "onnx.infer" || entry.key().starts_with("onnx.quant.") ||
                       entry.key().starts_with("gq.") || entry.key().starts_with("gq_");
    if (!stale) properties.Add(std::move(entry));
  }
  proto->mutable_metadata_props()->Swap(&properties);
}

std::string Listed(const std::map<std::string, int>& counts) {
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [op, count] : counts) parts.push_back(StrCat(op, " ", count));
  return base::StrJoin(parts, ", ");
}

void Describe(DequantizeReport* report) {
  auto& details = report->details;
  if (!report->removed.empty()) details.push_back(StrCat("removed: ", Listed(report->removed)));
  if (!report->replaced.empty()) {
    details.push_back(StrCat("turned into float operators: ", Listed(report->replaced)));
  }
  if (report->constants > 0) {
    details.push_back(StrCat(report->constants, " integer constants are float32 now"));
  }
  if (report->clamps > 0) {
    details.push_back(StrCat(report->clamps, " Relu or Relu6 nodes stand where a quantized range ",
                             "did their work"));
  }
  if (report->rescales > 0) {
    details.push_back(StrCat(report->rescales, " tensors are rescaled where they were read with ",
                             "other parameters than they were written with"));
  }
  if (report->hardware_factors > 0) {
    details.push_back(
        StrCat(report->hardware_factors, " constants of the NPU's arithmetic were taken out"));
  }
}

}  // namespace

absl::StatusOr<DequantizeReport> Dequantize(Model* model) {
  DequantizeReport report;
  report.state = graph::StateOf(model->graph());
  const Model source = *model;
  model->mutable_graph()->clear_value_info();  // names of tensors that are gone are free
  Stripper stripper(source, model, &report);
  GQ_RETURN_IF_ERROR(stripper.Run());
  if (report.state == graph::ModelState::kFloat && report.removed.empty() &&
      report.replaced.empty()) {
    *model = source;
    return base::MakeError(base::Reason::kNotQuantized,
                           "the model is not quantized: it holds no quantized operator",
                           "quantize a float model with --mode full");
  }
  graph::RemoveDeadNodes(model->mutable_graph());
  graph::RemoveUnusedInitializers(model->mutable_graph());
  model->CompactStore();
  GQ_RETURN_IF_ERROR(BFloat16Remover(model).Run());
  GQ_RETURN_IF_ERROR(graph::ConvertToFloat32(model).status());
  GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, model));
  RemoveIdleCasts(model->mutable_graph());
  graph::RemoveDeadNodes(model->mutable_graph());
  graph::RemoveUnusedInitializers(model->mutable_graph());
  model->CompactStore();
  GQ_RETURN_IF_ERROR(graph::SortTopologically(model->mutable_graph()));
  graph::MakeNodeNamesUnique(model->mutable_graph());
  CleanHeader(model->mutable_proto());
  GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, model));
  if (const absl::Status status = graph::CheckModel(*model); !status.ok()) {
    return base::AddContext(status, "the stripped model");
  }
  if (graph::StateOf(model->graph()) != graph::ModelState::kFloat) {
    return base::MakeError(base::Reason::kInternal,
                           "a quantized operator is left in the stripped model");
  }
  Describe(&report);
  return report;
}

}  // namespace gq::quantize
