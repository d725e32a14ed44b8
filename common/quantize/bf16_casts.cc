#include "common/quantize/bf16_casts.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/names.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/quantize_values.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::TensorView;
using onnx::TensorProto;

// Type of the zero point of a pair of the extended path; UNDEFINED for other nodes.
ElementType PairType(const onnx::NodeProto& node, const InitializerMap& initializers) {
  if (node.domain() != kQuarkDomain || !IsQdqNode(node) || node.input_size() < 3) {
    return TensorProto::UNDEFINED;
  }
  const TensorProto* zero_point = initializers.Find(node.input(2));
  return zero_point == nullptr ? TensorProto::UNDEFINED : zero_point->data_type();
}

onnx::NodeProto MakeCast(const std::string& input, const std::string& output, int64_t type) {
  onnx::NodeProto cast = graph::MakeNode("Cast", "", {input}, {output});
  graph::SetAttribute("to", type, &cast);
  return cast;
}

bool IsCastTo(const onnx::NodeProto& node, int64_t type) {
  return graph::IsOp(node, "Cast") && node.attribute_size() == 1 &&
         graph::AttributeInt(node, "to", 0) == type;
}

class CastWriter {
 public:
  CastWriter(bool float16_too, graph::Model& model, graph::NameScope& names)
      : float16_too_(float16_too), model_(model), names_(names), graph_(model.mutable_graph()) {}

  int Run() {
    const InitializerMap initializers(model_);
    std::vector<onnx::NodeProto> nodes;
    for (auto& node : *graph_->mutable_node()) {
      const ElementType type = PairType(node, initializers);
      if (type != TensorProto::BFLOAT16 && !(float16_too_ && type == TensorProto::FLOAT16)) {
        nodes.push_back(std::move(node));
        continue;
      }
      ++changed_;
      const float scale = initializers.Scale(node.input(1));
      if (IsQuantizeNode(node)) {
        Quantize(node, scale, type, &nodes);
      } else {
        Dequantize(node, scale, &nodes);
      }
    }
    graph_->clear_node();
    for (auto& node : nodes) *graph_->add_node() = std::move(node);
    for (auto& [name, value] : factors_) {
      model_.AddInitializer(name, TensorView::Of<float>({}, std::vector<float>{value}));
    }
    return changed_;
  }

 private:
  void Quantize(const onnx::NodeProto& node, float scale, ElementType type,
                std::vector<onnx::NodeProto>* nodes) {
    std::string input = node.input(0);
    if (scale != 1) {
      const std::string scaled = names_.Unique(StrCat(node.name(), "_mul_out"));
      nodes->push_back(graph::MakeNode("Mul", "", {input, Factor(node, 1 / scale)}, {scaled}));
      input = scaled;
    }
    nodes->push_back(MakeCast(input, node.output(0), type));
  }

  void Dequantize(const onnx::NodeProto& node, float scale, std::vector<onnx::NodeProto>* nodes) {
    if (scale == 1) {
      nodes->push_back(MakeCast(node.input(0), node.output(0), TensorProto::FLOAT));
      return;
    }
    const std::string cast = names_.Unique(StrCat(node.name(), "_cast_out"));
    nodes->push_back(MakeCast(node.input(0), cast, TensorProto::FLOAT));
    nodes->push_back(graph::MakeNode("Mul", "", {cast, Factor(node, scale)}, {node.output(0)}));
  }

  std::string Factor(const onnx::NodeProto& node, float value) {
    std::string name = names_.Unique(ScaleName(node.name()));
    factors_.emplace_back(name, value);
    return name;
  }

  const bool float16_too_;
  graph::Model& model_;
  graph::NameScope& names_;
  onnx::GraphProto* graph_;
  std::vector<std::pair<std::string, float>> factors_;
  int changed_ = 0;
};

// Takes Cast pairs out of a graph, on the graph as it is before the pass.
class CastRemover {
 public:
  explicit CastRemover(QuantizeContext& context)
      : context_(context),
        graph_(context.model.mutable_graph()),
        before_(context.model.graph()),
        index_(before_) {}

  int Run() {
    for (int position = 0; position < before_.node_size(); ++position) {
      const auto& node = before_.node(position);
      if (IsCastTo(node, TensorProto::BFLOAT16)) Remove(position, node);
    }
    graph::RemoveNodes(gone_, graph_);
    return static_cast<int>(gone_.size());
  }

 private:
  void Remove(int first, const onnx::NodeProto& to_bf16) {
    const int second = OnlyReader(to_bf16.output(0));
    if (second < 0 || !IsCastTo(before_.node(second), TensorProto::FLOAT)) return;
    const std::string& source = to_bf16.input(0);
    const std::string& result = before_.node(second).output(0);
    if (index_.IsInitializer(source)) {
      if (index_.Uses(source).size() == 1) RoundWeight(source, result, first, second);
      return;
    }
    const int producer = index_.ProducerPosition(source);
    if (producer < 0 || OnlyReader(source) != first) return;
    if (index_.IsGraphOutput(result)) {
      for (auto& output : *graph_->mutable_node(producer)->mutable_output()) {
        if (output == source) output = result;
      }
    } else {
      ReplaceReaders(result, source);
    }
    Drop(first, second);
  }

  // Position of the one node that reads the tensor as an input (subgraphs go on reading it by its
  // name); -1 otherwise.
  int OnlyReader(std::string_view tensor) const {
    int reader = -1;
    for (const auto& use : index_.Uses(tensor)) {
      if (use.input == graph::TensorUse::kCaptured) continue;
      if (reader >= 0) return -1;
      reader = use.node;
    }
    return reader;
  }

  void ReplaceReaders(const std::string& tensor, const std::string& replacement) {
    for (const auto& use : index_.Uses(tensor)) {
      if (use.input == graph::TensorUse::kCaptured) continue;
      *graph_->mutable_node(use.node)->mutable_input(use.input) = replacement;
    }
  }

  void RoundWeight(const std::string& weight, const std::string& result, int first, int second) {
    const onnx::TensorProto* initializer = context_.model.FindInitializer(weight);
    const auto data = initializer == nullptr ? absl::StatusOr<TensorView>(absl::NotFoundError(""))
                                             : context_.model.Data(*initializer);
    if (!data.ok() || data->dtype() != TensorProto::FLOAT || index_.Uses(result).empty()) return;
    const std::vector<float> rounded =
        RoundTrip(data->As<float>(), {.scale = 1, .type = TensorProto::BFLOAT16});
    const std::string name = context_.names.Unique(StrCat(weight, "_bf16"));
    context_.model.AddInitializer(name, TensorView::Of<float>(data->dims(), rounded));
    ReplaceReaders(result, name);
    Drop(first, second);
  }

  void Drop(int first, int second) {
    gone_.push_back(first);
    gone_.push_back(second);
  }

  QuantizeContext& context_;
  onnx::GraphProto* graph_;
  const onnx::GraphProto before_;
  const graph::GraphIndex index_;
  std::vector<int> gone_;
};

}  // namespace

int ReplacePairsByCasts(bool float16_too, graph::Model* model, graph::NameScope* names) {
  return CastWriter(float16_too, *model, *names).Run();
}

absl::StatusOr<int> UseBFloat16Casts::Run(QuantizeContext& context) const {
  return ReplacePairsByCasts(!context.settings.quark, &context.model, &context.names);
}

absl::StatusOr<int> KeepRoundedWeights::Run(QuantizeContext& context) const {
  return CastRemover(context).Run();
}

absl::StatusOr<int> ClipBeforeBFloat16::Run(QuantizeContext& context) const {
  constexpr float kLargest = 3.38953139e38f;
  const InitializerMap initializers(context.model);
  onnx::GraphProto* graph = context.model.mutable_graph();
  std::vector<onnx::NodeProto> clips;
  std::vector<std::pair<std::string, float>> bounds;
  for (auto& node : *graph->mutable_node()) {
    if (!IsQuantizeNode(node) || PairType(node, initializers) != TensorProto::BFLOAT16) continue;
    const std::string source = node.input(0);
    if (initializers.Find(source) != nullptr) continue;
    const std::string lower = context.names.Unique(StrCat(source, "_clip_min"));
    const std::string upper = context.names.Unique(StrCat(source, "_clip_max"));
    const std::string output = context.names.Unique(StrCat(source, "_clip_output"));
    bounds.emplace_back(lower, -kLargest);
    bounds.emplace_back(upper, kLargest);
    clips.push_back(graph::MakeNode("Clip", "", {source, lower, upper}, {output}));
    *node.mutable_input(0) = output;
  }
  for (const auto& [name, value] : bounds) {
    context.model.AddInitializer(name, TensorView::Of<float>({}, std::vector<float>{value}));
  }
  const int added = static_cast<int>(clips.size());
  for (auto& clip : clips) *graph->add_node() = std::move(clip);
  return added;
}

}  // namespace gq::quantize
