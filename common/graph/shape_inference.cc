#include "common/graph/shape_inference.h"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/guarded_schemas.h"
#include "onnx/shape_inference/implementation.h"

namespace gq::graph {
namespace {

using Types = std::unordered_map<std::string, onnx::TypeProto>;

bool HasShape(const onnx::TypeProto& type) {
  return !type.has_tensor_type() || type.tensor_type().has_shape();
}

// Node outputs with their types as they were known.
Types TakeTypes(onnx::GraphProto* graph) {
  Types types;
  for (auto& info : *graph->mutable_value_info()) {
    types[info.name()] = std::move(*info.mutable_type());
  }
  graph->clear_value_info();
  for (auto& output : *graph->mutable_output()) {
    types[output.name()] = output.type();
    if (output.type().has_tensor_type()) {
      output.mutable_type()->mutable_tensor_type()->clear_shape();
    }
  }
  return types;
}

void ForgetInSubgraphs(onnx::GraphProto* graph) {
  for (auto& node : *graph->mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (!attribute.has_g()) continue;
      auto* inner = attribute.mutable_g();
      inner->clear_value_info();
      for (auto& output : *inner->mutable_output()) {
        if (output.type().has_tensor_type()) {
          output.mutable_type()->mutable_tensor_type()->clear_shape();
        }
      }
      ForgetInSubgraphs(inner);
    }
  }
}

absl::Status Run(InferenceMode mode, onnx::ModelProto* proto) {
  try {
    const onnx::ShapeInferenceOptions options(/*check_type=*/true,
                                              mode == InferenceMode::kStrict ? 1 : 0,
                                              /*data_prop=*/true);
    onnx::shape_inference::InferShapes(*proto, &GuardedSchemas(), options);
  } catch (const std::exception& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return base::MakeError(base::Reason::kModelInvalid,
                           base::StrCat("shape inference says: ", text));
  }
  return absl::OkStatus();
}

// Known types of node outputs after inference.
std::unordered_set<std::string> Inferred(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& info : graph.value_info()) {
    if (HasShape(info.type())) names.insert(info.name());
  }
  for (const auto& output : graph.output()) {
    if (HasShape(output.type())) names.insert(output.name());
  }
  return names;
}

// Gives back what was known of outputs of operators that inference knows nothing of. Returns
// whether there were any.
bool RestoreUnknown(const Types& before, onnx::GraphProto* graph) {
  const auto known = Inferred(*graph);
  bool any = false;
  for (const auto& node : graph->node()) {
    if (node.domain().empty() || node.domain() == "ai.onnx") continue;
    for (const auto& name : node.output()) {
      const auto old = before.find(name);
      if (name.empty() || known.contains(name) || old == before.end()) continue;
      any = true;
      auto* outputs = graph->mutable_output();
      const auto output = std::find_if(outputs->begin(), outputs->end(),
                                       [&](const auto& info) { return info.name() == name; });
      if (output != outputs->end()) {
        *output->mutable_type() = old->second;
        continue;
      }
      auto* infos = graph->mutable_value_info();
      const auto same = std::find_if(infos->begin(), infos->end(),
                                     [&](const auto& info) { return info.name() == name; });
      auto* info = same != infos->end() ? &*same : infos->Add();
      info->set_name(name);
      *info->mutable_type() = old->second;
    }
  }
  return any;
}

// Operators of ONNX Runtime whose shapes follow from an operator that inference knows: it stands in
// for them while shapes are inferred. Only shapes and types count.
struct StandIn {
  std::string_view op_type;
  std::string_view instead;
  int inputs;
  std::vector<std::string_view> attributes;
};

const StandIn* FindStandIn(const onnx::NodeProto& node) {
  static const std::vector<StandIn> table = {
      {"Gelu", "Identity", 1, {}},
      {"FastGelu", "Identity", 1, {}},
      {"QuickGelu", "Identity", 1, {}},
      {"BiasGelu", "Identity", 1, {}},
      {"SkipLayerNormalization", "Identity", 1, {}},
      {"SkipSimplifiedLayerNormalization", "Identity", 1, {}},
      {"FusedConv",
       "Conv",
       3,
       {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}},
      {"FusedGemm", "Gemm", 3, {"alpha", "beta", "transA", "transB"}},
      {"FusedMatMul", "MatMul", 2, {}},
  };
  if (node.domain() != "com.microsoft") return nullptr;
  for (const char* attribute : {"transA", "transB", "transBatchA", "transBatchB"}) {
    if (node.op_type() == "FusedMatMul" && AttributeInt(node, attribute, 0) != 0) return nullptr;
  }
  const auto it = std::find_if(table.begin(), table.end(), [&](const StandIn& entry) {
    return entry.op_type == node.op_type();
  });
  return it == table.end() ? nullptr : &*it;
}

// Puts stand-ins into the graph; returns the nodes that they stand for, by position.
std::vector<std::pair<int, onnx::NodeProto>> PutStandIns(onnx::GraphProto* graph) {
  std::vector<std::pair<int, onnx::NodeProto>> originals;
  for (int i = 0; i < graph->node_size(); ++i) {
    auto* node = graph->mutable_node(i);
    const StandIn* entry = FindStandIn(*node);
    if (entry == nullptr) continue;
    onnx::NodeProto original = std::move(*node);
    node->Clear();
    node->set_name(original.name());
    node->set_op_type(std::string(entry->instead));
    node->add_output(original.output(0));
    for (int j = 0; j < std::min(entry->inputs, original.input_size()); ++j) {
      node->add_input(original.input(j));
    }
    for (const auto& attribute : original.attribute()) {
      if (std::find(entry->attributes.begin(), entry->attributes.end(), attribute.name()) !=
          entry->attributes.end()) {
        *node->add_attribute() = attribute;
      }
    }
    originals.emplace_back(i, std::move(original));
  }
  return originals;
}

}  // namespace

absl::Status InferShapes(InferenceMode mode, Model* model) {
  onnx::ModelProto proto = model->ToProtoWithStoredAsInputs();
  const Types before = TakeTypes(proto.mutable_graph());
  ForgetInSubgraphs(proto.mutable_graph());
  auto originals = PutStandIns(proto.mutable_graph());
  GQ_RETURN_IF_ERROR(Run(mode, &proto));
  if (RestoreUnknown(before, proto.mutable_graph())) GQ_RETURN_IF_ERROR(Run(mode, &proto));

  for (auto& [position, node] : originals) {
    *proto.mutable_graph()->mutable_node(position) = std::move(node);
  }
  auto* graph = model->mutable_graph();
  graph->mutable_value_info()->Swap(proto.mutable_graph()->mutable_value_info());
  for (int i = 0; i < graph->output_size(); ++i) {
    // Outputs without any inferred shape keep what the file says about them.
    const auto& inferred = proto.graph().output(i).type();
    if (HasShape(inferred) || !before.contains(graph->output(i).name())) {
      *graph->mutable_output(i)->mutable_type() = inferred;
    }
  }
  // Bodies of control flow, whose value_info is inferred as well. Nodes are the same in both
  // messages.
  graph->mutable_node()->Swap(proto.mutable_graph()->mutable_node());
  return absl::OkStatus();
}

}  // namespace gq::graph
