#include "common/graph/normalize.h"

#include <exception>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/sparse_tensors.h"
#include "common/graph/tensor_data.h"
#include "onnx/inliner/inliner.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

// Nodes that all calls of functions together may grow to.
constexpr int64_t kMaxInlinedNodes = 1'000'000;

using FunctionKey = std::pair<std::string, std::string>;  // domain, name

// Size of each function after all inlining, found depth first.
class FunctionSizes {
 public:
  explicit FunctionSizes(const onnx::ModelProto& model) {
    for (const auto& function : model.functions()) {
      functions_[{function.domain(), function.name()}] = &function;
    }
  }

  template <typename Nodes>
  absl::StatusOr<int64_t> OfNodes(const Nodes& nodes) {
    int64_t total = 0;
    for (const auto& node : nodes) {
      GQ_ASSIGN_OR_RETURN(const int64_t size, OfNode(node));
      total += size;
      if (total > kMaxInlinedNodes) {
        return base::MakeError(
            Reason::kModelTooLarge,
            StrCat("the functions of the model expand to more than ", kMaxInlinedNodes, " nodes"));
      }
    }
    return total;
  }

 private:
  absl::StatusOr<int64_t> OfNode(const onnx::NodeProto& node) {
    int64_t size = 1;
    absl::Status status;
    ForEachSubgraph(node, [&](const auto& graph) {
      if (!status.ok()) return;
      const auto inner = OfNodes(graph.node());
      status = inner.status();
      if (inner.ok()) size += *inner;
    });
    GQ_RETURN_IF_ERROR(status);
    const FunctionKey key{node.domain(), node.op_type()};
    const auto function = functions_.find(key);
    if (function == functions_.end()) return size;
    const auto known = sizes_.find(key);
    if (known != sizes_.end()) return size + known->second;
    if (!open_.insert(key).second) {
      return base::MakeError(Reason::kModelInvalid,
                             StrCat("the function ", node.domain(), ".", node.op_type(),
                                    " of the model calls itself"));
    }
    GQ_ASSIGN_OR_RETURN(const int64_t body, OfNodes(function->second->node()));
    open_.erase(key);
    sizes_[key] = body;
    return size + body;
  }

  std::map<FunctionKey, const onnx::FunctionProto*> functions_;
  std::map<FunctionKey, int64_t> sizes_;
  std::set<FunctionKey> open_;
};

// The library follows a null pointer for an output that nothing makes.
absl::Status CheckFunctionOutputs(const onnx::FunctionProto& function) {
  std::set<std::string> made(function.input().begin(), function.input().end());
  for (const auto& node : function.node()) {
    made.insert(node.output().begin(), node.output().end());
  }
  for (const auto& output : function.output()) {
    if (made.contains(output)) continue;
    return base::MakeError(Reason::kModelInvalid,
                           StrCat("nothing in the function ", function.domain(), ".",
                                  function.name(), " makes its output '", output, "'"),
                           "Export the model again, or check it with onnx.checker.check_model.");
  }
  return absl::OkStatus();
}

absl::Status InlineFunctions(onnx::ModelProto* model, std::vector<std::string>* notes) {
  if (model->functions_size() == 0) return absl::OkStatus();
  for (const auto& function : model->functions()) {
    GQ_RETURN_IF_ERROR(CheckFunctionOutputs(function));
  }
  GQ_RETURN_IF_ERROR(FunctionSizes(*model).OfNodes(model->graph().node()).status());
  const int functions = model->functions_size();
  try {
    onnx::inliner::InlineLocalFunctions(*model, /*convert_version=*/true);
  } catch (const std::exception& error) {
    return base::MakeError(Reason::kModelInvalid,
                           StrCat("the functions of the model cannot be inlined: ", error.what()));
  }
  notes->push_back(StrCat("inlined the ", functions, " functions of the model"));
  return absl::OkStatus();
}

// The value of a Constant node as a tensor.
absl::StatusOr<onnx::TensorProto> ConstantValue(onnx::NodeProto* node, int64_t* budget) {
  for (auto& attribute : *node->mutable_attribute()) {
    onnx::TensorProto tensor;
    const std::string& name = attribute.name();
    if (name == "value" && attribute.has_t()) return std::move(*attribute.mutable_t());
    if (name == "value_float") {
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      tensor.add_float_data(attribute.f());
      return tensor;
    }
    if (name == "value_int") {
      tensor.set_data_type(onnx::TensorProto::INT64);
      tensor.add_int64_data(attribute.i());
      return tensor;
    }
    if (name == "value_string") {
      tensor.set_data_type(onnx::TensorProto::STRING);
      tensor.add_string_data(attribute.s());
      return tensor;
    }
    if (name == "value_floats") {
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      tensor.add_dims(attribute.floats_size());
      *tensor.mutable_float_data() = attribute.floats();
      return tensor;
    }
    if (name == "value_ints") {
      tensor.set_data_type(onnx::TensorProto::INT64);
      tensor.add_dims(attribute.ints_size());
      *tensor.mutable_int64_data() = attribute.ints();
      return tensor;
    }
    if (name == "value_strings") {
      tensor.set_data_type(onnx::TensorProto::STRING);
      tensor.add_dims(attribute.strings_size());
      *tensor.mutable_string_data() = attribute.strings();
      return tensor;
    }
    if (name == "sparse_value") return MakeDense(attribute.sparse_tensor(), budget);
  }
  return base::MakeError(Reason::kModelInvalid, StrCat(Describe(*node), " has no value"));
}

absl::Status ConstantsToInitializers(onnx::GraphProto* graph, int64_t* budget, int* moved) {
  std::unordered_set<std::string> outputs;
  for (const auto& output : graph->output()) outputs.insert(output.name());
  std::vector<int> gone;
  for (int i = 0; i < graph->node_size(); ++i) {
    auto* node = graph->mutable_node(i);
    absl::Status status;
    ForEachMutableSubgraph(node, [&](auto* inner) {
      if (status.ok()) status = ConstantsToInitializers(inner, budget, moved);
    });
    GQ_RETURN_IF_ERROR(status);
    if (!IsOp(*node, "Constant") || node->output_size() != 1 || outputs.contains(node->output(0))) {
      continue;
    }
    GQ_ASSIGN_OR_RETURN(onnx::TensorProto tensor, ConstantValue(node, budget));
    tensor.set_name(node->output(0));
    *graph->add_initializer() = std::move(tensor);
    gone.push_back(i);
  }
  *moved += static_cast<int>(gone.size());
  RemoveNodes(std::move(gone), graph);
  return absl::OkStatus();
}

// Initializers that are inputs too are defaults that a caller may override; nobody can do so with a
// quantized model.
absl::Status RemoveInitializerInputs(onnx::ModelProto* model, std::vector<std::string>* notes) {
  auto* graph = model->mutable_graph();
  std::unordered_set<std::string> initializers;
  for (const auto& initializer : graph->initializer()) {
    if (initializer.name().empty()) {
      return base::MakeError(Reason::kModelInvalid, "an initializer of the model has no name");
    }
    if (!initializers.insert(initializer.name()).second) {
      return base::MakeError(Reason::kModelInvalid,
                             StrCat("there are two initializers '", initializer.name(), "'"));
    }
  }
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  for (auto& input : *graph->mutable_input()) {
    if (!initializers.contains(input.name())) inputs.Add(std::move(input));
  }
  const int removed = graph->input_size() - inputs.size();
  graph->mutable_input()->Swap(&inputs);
  if (removed > 0 && model->ir_version() >= 4) {
    notes->push_back(StrCat("took ", removed, " initializers out of the list of inputs"));
  }
  return absl::OkStatus();
}

absl::Status RequireDistinctOutputs(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> outputs;
  for (const auto& output : graph.output()) {
    if (!outputs.insert(output.name()).second) {
      return base::MakeError(
          Reason::kModelInvalid,
          StrCat("'", output.name(), "' is listed twice among the outputs of the model"),
          "Export the model with a name of its own for each output.");
    }
  }
  return absl::OkStatus();
}

// Results of variadic operators that nobody wants may not be left out, though exporters do so.
void NameLeftOutResults(onnx::GraphProto* graph) {
  NameScope names(*graph);
  for (auto& node : *graph->mutable_node()) {
    if (!IsOp(node, "Split")) continue;
    for (auto& output : *node.mutable_output()) {
      if (output.empty()) output = names.Unique(StrCat(node.input(0), "_unused"));
    }
  }
}

// The default domain has two names, of which libraries understand one.
void UseShortDomain(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes) {
  for (auto& node : *nodes) {
    if (node.domain() == "ai.onnx") node.clear_domain();
    ForEachMutableSubgraph(&node, [](auto* inner) { UseShortDomain(inner->mutable_node()); });
  }
}

void UseShortDomain(google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>* imports) {
  for (auto& import : *imports) {
    if (import.domain() == "ai.onnx") import.clear_domain();
  }
}

void UseShortDomain(onnx::ModelProto* model) {
  UseShortDomain(model->mutable_opset_import());
  UseShortDomain(model->mutable_graph()->mutable_node());
  for (auto& function : *model->mutable_functions()) {
    UseShortDomain(function.mutable_opset_import());
    UseShortDomain(function.mutable_node());
  }
}

}  // namespace

absl::Status NormalizeModel(onnx::ModelProto* model, std::vector<std::string>* notes) {
  UseShortDomain(model);
  GQ_RETURN_IF_ERROR(InlineFunctions(model, notes));
  auto* graph = model->mutable_graph();
  int64_t budget = kMostDenseBytes;
  int dense = 0;
  GQ_RETURN_IF_ERROR(MakeInitializersDense(graph, &budget, &dense));
  if (dense > 0) notes->push_back(StrCat("made ", dense, " sparse initializers dense"));
  int moved = 0;
  GQ_RETURN_IF_ERROR(ConstantsToInitializers(graph, &budget, &moved));
  if (moved > 0) notes->push_back(StrCat("turned ", moved, " Constant nodes into initializers"));
  GQ_RETURN_IF_ERROR(RequireDistinctOutputs(model->graph()));
  GQ_RETURN_IF_ERROR(RemoveInitializerInputs(model, notes));
  if (model->ir_version() < 4) model->set_ir_version(4);
  if (graph->name().empty()) graph->set_name("graph");
  NameLeftOutResults(graph);
  GQ_RETURN_IF_ERROR(SortTopologically(graph));
  const int named = MakeNodeNamesUnique(graph);
  if (named > 0) notes->push_back(StrCat("gave ", named, " nodes a unique name"));
  return absl::OkStatus();
}

}  // namespace gq::graph
