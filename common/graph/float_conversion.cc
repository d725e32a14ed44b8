#include "common/graph/float_conversion.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"

namespace gq::graph {
namespace {

using base::StrCat;

bool IsOtherFloat(int64_t dtype) {
  return dtype == onnx::TensorProto::FLOAT16 || dtype == onnx::TensorProto::DOUBLE ||
         dtype == onnx::TensorProto::BFLOAT16;
}

class Converter {
 public:
  explicit Converter(Model* model) : model_(model) {}

  absl::StatusOr<int> Run() {
    if (!HasOtherFloats(model_->graph())) return 0;
    auto* graph = model_->mutable_graph();
    GQ_RETURN_IF_ERROR(ConvertBody(graph));
    graph->clear_value_info();
    NameScope names(*graph);
    KeepInputTypes(&names, graph);
    KeepOutputTypes(&names, graph);
    model_->CompactStore();
    return converted_;
  }

 private:
  static bool HasOtherFloats(const onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) {
      if (IsOtherFloat(tensor.data_type())) return true;
    }
    for (const auto& input : graph.input()) {
      if (IsOtherFloat(input.type().tensor_type().elem_type())) return true;
    }
    bool found = false;
    for (const auto& node : graph.node()) {
      for (const auto& attribute : node.attribute()) {
        found = found || (attribute.has_t() && IsOtherFloat(attribute.t().data_type()));
      }
      found = found || (IsOp(node, "Cast") && IsOtherFloat(AttributeInt(node, "to", 0)));
      ForEachSubgraph(node, [&](const auto& inner) { found = found || HasOtherFloats(inner); });
    }
    return found;
  }

  absl::Status ConvertTensor(onnx::TensorProto* tensor) {
    if (!IsOtherFloat(tensor->data_type())) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const TensorView view, model_->Data(*tensor));
    GQ_ASSIGN_OR_RETURN(const std::vector<float> values, view.ToFloats());
    model_->SetData(TensorView::Of<float>(view.dims(), values), tensor);
    ++converted_;
    return absl::OkStatus();
  }

  // Tensors of attributes and subgraphs stay inside the message.
  absl::Status ConvertInlineTensor(onnx::TensorProto* tensor) {
    if (!IsOtherFloat(tensor->data_type())) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const TensorView view, model_->Data(*tensor));
    GQ_ASSIGN_OR_RETURN(const std::vector<float> values, view.ToFloats());
    ClearData(tensor);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    ++converted_;
    return absl::OkStatus();
  }

  absl::Status ConvertNode(onnx::NodeProto* node) {
    for (auto& attribute : *node->mutable_attribute()) {
      if (attribute.has_t()) GQ_RETURN_IF_ERROR(ConvertInlineTensor(attribute.mutable_t()));
      const bool is_type = attribute.name() == "dtype" || attribute.name() == "to" ||
                           attribute.name() == "output_datatype";
      if (is_type && attribute.has_i() && IsOtherFloat(attribute.i())) {
        attribute.set_i(onnx::TensorProto::FLOAT);
      }
    }
    absl::Status status;
    ForEachMutableSubgraph(node, [&](auto* inner) {
      if (!status.ok()) return;
      for (auto& tensor : *inner->mutable_initializer()) {
        status.Update(ConvertInlineTensor(&tensor));
      }
      for (auto* infos : {inner->mutable_input(), inner->mutable_output()}) {
        for (auto& info : *infos) {
          if (IsOtherFloat(info.type().tensor_type().elem_type())) {
            info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
          }
        }
      }
      inner->clear_value_info();
      for (auto& nested : *inner->mutable_node()) status.Update(ConvertNode(&nested));
    });
    return status;
  }

  absl::Status ConvertBody(onnx::GraphProto* graph) {
    for (auto& tensor : *graph->mutable_initializer()) GQ_RETURN_IF_ERROR(ConvertTensor(&tensor));
    for (auto& node : *graph->mutable_node()) GQ_RETURN_IF_ERROR(ConvertNode(&node));
    return absl::OkStatus();
  }

  static onnx::NodeProto MakeCast(const std::string& from, const std::string& to, int64_t type,
                                  const std::string& tensor, NameScope* names) {
    onnx::NodeProto cast =
        MakeNode("Cast", names->UniqueNode(StrCat(tensor, "_Cast")), {from}, {to});
    SetAttribute("to", type, &cast);
    return cast;
  }

  void KeepInputTypes(NameScope* names, onnx::GraphProto* graph) {
    int at = 0;
    for (const auto& input : graph->input()) {
      if (!IsOtherFloat(input.type().tensor_type().elem_type())) continue;
      const std::string inner = names->Unique(StrCat(input.name(), "_float32"));
      ReplaceUses(input.name(), inner, graph);
      InsertNode(at++, MakeCast(input.name(), inner, onnx::TensorProto::FLOAT, input.name(), names),
                 graph);
      ++converted_;
    }
  }

  void KeepOutputTypes(NameScope* names, onnx::GraphProto* graph) {
    for (const auto& output : graph->output()) {
      const int32_t type = output.type().tensor_type().elem_type();
      const GraphIndex index(*graph);
      const int producer = index.ProducerPosition(output.name());
      if (!IsOtherFloat(type) || producer < 0) continue;
      const std::string inner = names->Unique(StrCat(output.name(), "_float32"));
      ReplaceUses(output.name(), inner, graph);
      for (auto& made : *graph->mutable_node(producer)->mutable_output()) {
        if (made == output.name()) made = inner;
      }
      *graph->add_node() = MakeCast(inner, output.name(), type, output.name(), names);
      ++converted_;
    }
  }

  Model* model_;
  int converted_ = 0;
};

}  // namespace

absl::StatusOr<int> ConvertToFloat32(Model* model) { return Converter(model).Run(); }

}  // namespace gq::graph
