#include "common/quantize/dual_pairs.h"

#include <set>
#include <tuple>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/names.h"
#include "common/quantize/parameters.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/topological_order.h"

namespace gq::quantize {
namespace {

using base::StrCat;

// A pair on an input or output of a node.
struct Stage {
  bool is_input = true;
  int tensor_index = 0;
  std::string tensor;           // as the node reads or makes it
  std::string override_tensor;  // float tensor with a type of its own; empty for none
  std::string float_tensor;     // float tensor on the far side of the pair
  ElementType type = 0;
  onnx::NodeProto* target = nullptr;  // whose input is taken apart
  int template_index = -1;
};

struct NodeStages {
  std::string name;
  std::vector<Stage> stages;
};

class DualPairs {
 public:
  explicit DualPairs(QuantizeContext& context)
      : context_(context), graph_(context.model.mutable_graph()), index_(context.model.graph()) {}

  absl::StatusOr<int> Run() {
    Collect();
    for (auto& node : nodes_) GQ_RETURN_IF_ERROR(Complete(node));
    for (auto& added : added_) graph_->add_node()->Swap(&added);
    if (inserted_ > 0 && context_.settings.quark) GQ_RETURN_IF_ERROR(SortBreadthFirst(graph_));
    return inserted_;
  }

 private:
  void Collect() {
    for (int position = 0; position < graph_->node_size(); ++position) {
      onnx::NodeProto* node = graph_->mutable_node(position);
      if (IsQdqNode(*node)) continue;
      NodeStages entry{.name = DisplayName(*node)};
      for (int i = 0; i < node->input_size(); ++i) {
        if (auto stage = InputStage(node, i)) entry.stages.push_back(std::move(*stage));
      }
      for (int o = 0; o < node->output_size(); ++o) AddOutputStages(*node, o, &entry.stages);
      nodes_.push_back(std::move(entry));
    }
  }

  static std::string DisplayName(const onnx::NodeProto& node) {
    return node.name().empty() ? node.op_type() : node.name();
  }

  ElementType TypeOf(const onnx::NodeProto& quantize) const {
    const onnx::TensorProto* zero_point = index_.Initializer(graph::InputName(quantize, 2));
    return zero_point == nullptr ? 0 : zero_point->data_type();
  }

  std::string Overridden(const std::string& tensor, const std::string& other) const {
    if (context_.targets.Override(tensor) != nullptr) return tensor;
    return context_.targets.Override(other) != nullptr ? other : std::string();
  }

  std::optional<Stage> InputStage(onnx::NodeProto* node, int position) const {
    const std::string& tensor = node->input(position);
    const onnx::NodeProto* dequantize = index_.Producer(tensor);
    if (dequantize == nullptr || !IsDequantizeNode(*dequantize)) return std::nullopt;
    const onnx::NodeProto* quantize = index_.Producer(dequantize->input(0));
    if (quantize == nullptr || !IsQuantizeNode(*quantize)) return std::nullopt;
    const std::string& source = quantize->input(0);
    if (index_.IsInitializer(source)) return std::nullopt;
    return Stage{.is_input = true,
                 .tensor_index = position,
                 .tensor = tensor,
                 .override_tensor = Overridden(tensor, source),
                 .float_tensor = source,
                 .type = TypeOf(*quantize),
                 .target = node};
  }

  void AddOutputStages(const onnx::NodeProto& node, int position, std::vector<Stage>* stages) {
    const std::string& tensor = node.output(position);
    for (const auto& use : index_.Uses(tensor)) {
      if (use.input == graph::TensorUse::kCaptured) continue;
      onnx::NodeProto* quantize = graph_->mutable_node(use.node);
      if (!IsQuantizeNode(*quantize)) continue;
      const onnx::NodeProto* dequantize = nullptr;
      for (const auto& reader : index_.Uses(quantize->output(0))) {
        if (!IsDequantizeNode(index_.node(reader.node))) continue;
        dequantize = &index_.node(reader.node);
        break;
      }
      if (dequantize == nullptr) continue;
      stages->push_back({.is_input = false,
                         .tensor_index = position,
                         .tensor = tensor,
                         .override_tensor = Overridden(tensor, dequantize->output(0)),
                         .float_tensor = dequantize->output(0),
                         .type = TypeOf(*quantize),
                         .target = quantize});
    }
  }

  // Position of the template among the node's own stages; -1 for none.
  int TemplateOf(const NodeStages& node) const {
    const auto& mixed = context_.targets.mixed_nodes;
    const bool wants_own_type = mixed.empty() || mixed.contains(node.name);
    for (size_t i = 0; i < node.stages.size(); ++i) {
      if (node.stages[i].override_tensor.empty() != wants_own_type) return static_cast<int>(i);
    }
    return -1;
  }

  // The template of a neighbour that shares a tensor with the node.
  const Stage* NeighboursTemplate(const NodeStages& node) const {
    for (const auto& stage : node.stages) {
      for (const auto& other : nodes_) {
        for (const auto& candidate : other.stages) {
          const bool shared = candidate.override_tensor == stage.override_tensor &&
                              (candidate.tensor == stage.override_tensor ||
                               candidate.override_tensor == stage.tensor);
          if (shared && candidate.template_index >= 0) {
            return &other.stages[candidate.template_index];
          }
        }
      }
    }
    return nullptr;
  }

  absl::Status Complete(NodeStages& node) {
    if (node.stages.empty()) return absl::OkStatus();
    const int own = TemplateOf(node);
    const Stage* model = own >= 0 ? &node.stages[own] : NeighboursTemplate(node);
    if (model == nullptr) {
      context_.Warn(StrCat("Node '", node.name,
                           "' lies between two precisions and no pair tells which is its own"));
      return absl::OkStatus();
    }
    const ElementType type = model->type;
    for (auto& stage : node.stages) {
      if (&stage == model || stage.type == type) continue;
      stage.template_index = own;
      if (done_.emplace(node.name, stage.tensor, DisplayName(*stage.target)).second) {
        GQ_RETURN_IF_ERROR(Insert(node, stage, type));
      }
    }
    return absl::OkStatus();
  }

  bool HasRange(const std::string& tensor) const {
    return context_.index.Exists(tensor) && !context_.index.IsInitializer(tensor) &&
           context_.index.ElemType(tensor) == onnx::TensorProto::FLOAT;
  }

  absl::Status Insert(const NodeStages& node, const Stage& stage, ElementType type) {
    const std::string& first = stage.override_tensor.empty() ? stage.tensor : stage.override_tensor;
    const std::string& ranged = HasRange(first) ? first : stage.float_tensor;
    const std::string scope = StrCat(ranged, "_", node.name, "_", stage.tensor_index, "_",
                                     DisplayName(*stage.target), "_additional_");
    GQ_ASSIGN_OR_RETURN(
        const QuantParams params,
        ActivationParamsAs(context_, ranged, type, context_.settings.activation_symmetric));

    const std::string quantize_base = StrCat(scope, kExtendedQuantize);
    const std::string dequantize_base = StrCat(scope, kExtendedDequantize);
    const std::string quantized = context_.names.Unique(StrCat(quantize_base, "_output"));
    const std::string dequantized = context_.names.Unique(StrCat(dequantize_base, "_output"));
    const std::string scale =
        AddParameter(StrCat(ranged, "_additional_scale"), ScaleTensor(std::span(&params, 1), -1));
    const std::string zero_point = AddParameter(StrCat(ranged, "_additional_zero_point"),
                                                ZeroPointTensor(std::span(&params, 1), -1));

    added_.push_back(graph::MakeNode(kExtendedQuantize, context_.names.UniqueNode(quantize_base),
                                     {stage.tensor, scale, zero_point}, {quantized}, kQuarkDomain));
    added_.push_back(graph::MakeNode(kExtendedDequantize,
                                     context_.names.UniqueNode(dequantize_base),
                                     {quantized, scale, zero_point}, {dequantized}, kQuarkDomain));
    const std::string replaced = stage.tensor;
    for (auto& input : *stage.target->mutable_input()) {
      if (input == replaced) input = dequantized;
    }
    ++inserted_;
    return absl::OkStatus();
  }

  std::string AddParameter(const std::string& wanted, const graph::TensorView& data) {
    std::string name = context_.names.Unique(wanted);
    context_.model.AddInitializer(name, data);
    return name;
  }

  QuantizeContext& context_;
  onnx::GraphProto* graph_;
  const graph::GraphIndex index_;
  std::vector<NodeStages> nodes_;
  std::set<std::tuple<std::string, std::string, std::string>> done_;
  std::vector<onnx::NodeProto> added_;
  int inserted_ = 0;
};

}  // namespace

absl::StatusOr<int> AddDualPairs::Run(QuantizeContext& context) const {
  return DualPairs(context).Run();
}

}  // namespace gq::quantize
