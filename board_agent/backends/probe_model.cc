#include "board_agent/backends/probe_model.h"

#include <utility>

#include "common/base/status.h"
#include "common/graph/shape_inference.h"

namespace gq::agent {
namespace {

void AddValue(const char* name, std::initializer_list<int64_t> dims, onnx::ValueInfoProto* value) {
  value->set_name(name);
  auto* tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
}

onnx::NodeProto* AddNode(const char* op, const char* input, const char* output,
                         onnx::GraphProto* graph) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  node->set_name(output);
  node->add_input(input);
  node->add_output(output);
  return node;
}

}  // namespace

absl::StatusOr<graph::Model> MakeProbeModel() {
  onnx::ModelProto proto;
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = proto.mutable_graph();
  graph->set_name("probe");
  AddValue("x", {1, 3, 8, 8}, graph->add_input());
  AddValue("y", {1, 4, 8, 8}, graph->add_output());
  onnx::TensorProto* weight = graph->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : {4, 3, 1, 1}) weight->add_dims(dim);
  for (int i = 0; i < 12; ++i) weight->add_float_data(0.25F * static_cast<float>(i - 6));
  AddNode("Conv", "x", "c", graph)->add_input("w");
  AddNode("Relu", "c", "y", graph);
  GQ_ASSIGN_OR_RETURN(graph::Model model, graph::Model::FromProto(std::move(proto)));
  GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kStrict, &model));
  return model;
}

}  // namespace gq::agent
