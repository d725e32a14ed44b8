// Transformer blocks, residual streams and post-processing.
#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::graph {
namespace {

using NameSet = std::set<std::string, std::less<>>;

const NameSet& QuantizeHops() {
  static const NameSet ops = {"QuantizeLinear",         "DequantizeLinear",
                              "ExtendedQuantizeLinear", "ExtendedDequantizeLinear",
                              "BFPQuantizeDequantize",  "MXQuantizeDequantize"};
  return ops;
}

// The initializer behind at most three quantization nodes; null when there is none.
const onnx::TensorProto* ResolveInitializer(const GraphIndex& index, std::string_view tensor) {
  for (int hop = 0; hop <= 3; ++hop) {
    if (const auto* initializer = index.Initializer(tensor)) return initializer;
    const auto* producer = index.Producer(tensor);
    if (producer == nullptr || !QuantizeHops().contains(producer->op_type())) return nullptr;
    tensor = producer->input(0);
  }
  return nullptr;
}

bool IsActivation(const GraphIndex& index, std::string_view tensor) {
  return !tensor.empty() && ResolveInitializer(index, tensor) == nullptr;
}

class DenseFinder {
 public:
  explicit DenseFinder(const onnx::GraphProto& graph) : index_(graph) {}

  std::vector<DenseLayer> Layers() const {
    std::vector<DenseLayer> layers;
    for (const auto& node : index_.graph().node()) {
      std::optional<DenseLayer> layer;
      if (IsOp(node, "Gemm")) layer = FromGemm(node);
      if (IsOp(node, "MatMul")) layer = FromMatMul(node);
      if (layer.has_value()) layers.push_back(*std::move(layer));
    }
    return layers;
  }

 private:
  std::optional<DenseLayer> FromGemm(const onnx::NodeProto& node) const {
    if (InputName(node, 2).empty()) return std::nullopt;
    const auto* weight = ResolveInitializer(index_, node.input(1));
    const auto* bias = ResolveInitializer(index_, node.input(2));
    if (weight == nullptr || bias == nullptr || weight->dims_size() != 2 ||
        bias->dims_size() != 1) {
      return std::nullopt;
    }
    const bool transposed = AttributeInt(node, "transB", 0) != 0;
    DenseLayer layer{node.name(),
                     "",
                     weight->name(),
                     weight->dims(transposed ? 1 : 0),
                     weight->dims(transposed ? 0 : 1),
                     ActivationAfter(node)};
    return layer;
  }

  std::optional<DenseLayer> FromMatMul(const onnx::NodeProto& node) const {
    const onnx::TensorProto* weight = nullptr;
    for (const auto& input : node.input()) {
      const auto* initializer = ResolveInitializer(index_, input);
      if (initializer != nullptr && initializer->dims_size() == 2) weight = initializer;
    }
    if (weight == nullptr) return std::nullopt;
    const auto* add = BiasAdd(node);
    if (add == nullptr) return std::nullopt;
    DenseLayer layer{node.name(),     add->name(),     weight->name(),
                     weight->dims(0), weight->dims(1), ActivationAfter(*add)};
    return layer;
  }

  bool AddsVector(const onnx::NodeProto& node) const {
    if (!IsOp(node, "Add")) return false;
    return std::any_of(node.input().begin(), node.input().end(), [&](const auto& input) {
      const auto* bias = ResolveInitializer(index_, input);
      return bias != nullptr && bias->dims_size() == 1;
    });
  }

  const onnx::NodeProto* BiasAdd(const onnx::NodeProto& matmul) const {
    const onnx::NodeProto* node = &matmul;
    for (int hop = 0; hop <= 3; ++hop) {
      const auto uses = index_.Uses(node->output(0));
      for (const auto& use : uses) {
        if (AddsVector(index_.node(use.node))) return &index_.node(use.node);
      }
      if (uses.size() != 1 || !QuantizeHops().contains(index_.node(uses[0].node).op_type())) {
        return nullptr;
      }
      node = &index_.node(uses[0].node);
    }
    return nullptr;
  }

  // Type of the activation that follows; empty for none. A Gelu or Silu may be spelled out.
  std::string ActivationAfter(const onnx::NodeProto& layer) const {
    static const NameSet activations = {
        "Gelu",        "Relu",      "Sigmoid", "Tanh",     "LeakyRelu", "Silu",           "Elu",
        "HardSigmoid", "HardSwish", "Mish",    "Softplus", "Softsign",  "ThresholdedRelu"};
    const onnx::NodeProto* node = &layer;
    for (int hop = 0; hop <= 8; ++hop) {
      const std::string spelled = SpelledActivation(node->output(0));
      if (!spelled.empty()) return spelled;
      const auto* reader = index_.OnlyConsumer(node->output(0));
      if (reader == nullptr) return "";
      if (activations.contains(reader->op_type())) return reader->op_type();
      if (!QuantizeHops().contains(reader->op_type()) && reader->op_type() != "Reshape" &&
          reader->op_type() != "Cast") {
        return "";
      }
      node = reader;
    }
    return "";
  }

  std::string SpelledActivation(const std::string& tensor) const {
    const auto uses = index_.Uses(tensor);
    if (uses.size() < 2) return "";
    for (const auto& use : uses) {
      const auto& reader = index_.node(use.node);
      if (IsOp(reader, "Erf")) return "Gelu";
      if (IsOp(reader, "Sigmoid")) return "Silu";
      if (!IsOp(reader, "Div") && !IsOp(reader, "Mul")) continue;
      const auto* next = index_.OnlyConsumer(reader.output(0));
      if (next != nullptr && IsOp(*next, "Erf")) return "Gelu";
      if (next != nullptr && IsOp(*next, "Sigmoid")) return "Silu";
    }
    return "";
  }

  GraphIndex index_;
};

// Follows producers of the first input through operators of `passing`; stops at the first other
// node.
const onnx::NodeProto* Behind(const GraphIndex& index, std::string_view tensor,
                              const NameSet& passing, int hops) {
  for (int hop = 0; hop <= hops; ++hop) {
    const auto* producer = index.Producer(tensor);
    if (producer == nullptr || !passing.contains(producer->op_type())) return producer;
    // Of a masked sum the side that a MatMul makes is followed.
    tensor = producer->input(0);
    for (const auto& input : producer->input()) {
      const auto* before = index.Producer(input);
      if (before != nullptr && IsOp(*before, "MatMul")) tensor = input;
    }
  }
  return nullptr;
}

const onnx::NodeProto* Ahead(const GraphIndex& index, std::string_view tensor,
                             const NameSet& passing, int hops) {
  for (int hop = 0; hop <= hops; ++hop) {
    const auto* reader = index.OnlyConsumer(tensor);
    if (reader == nullptr || !passing.contains(reader->op_type())) return reader;
    tensor = reader->output(0);
  }
  return nullptr;
}

bool JoinsActivations(const GraphIndex& index, const onnx::NodeProto* node) {
  return node != nullptr && IsOp(*node, "MatMul") && IsActivation(index, node->input(0)) &&
         IsActivation(index, node->input(1));
}

// Positions from which `goal` can be reached by going against (or along) the edges, `start`
// included.
std::unordered_set<int> Reach(const GraphIndex& index, const std::vector<int>& start,
                              bool forward) {
  std::unordered_set<int> seen(start.begin(), start.end());
  std::vector<int> open = start;
  while (!open.empty()) {
    const int position = open.back();
    open.pop_back();
    const auto visit = [&](int next) {
      if (next >= 0 && seen.insert(next).second) open.push_back(next);
    };
    if (forward) {
      for (const auto& output : index.node(position).output()) {
        for (const auto& use : index.Uses(output)) visit(use.node);
      }
    } else {
      for (const auto& input : index.node(position).input()) visit(index.ProducerPosition(input));
      for (const auto& name : CapturedNames(index.node(position))) {
        visit(index.ProducerPosition(name));
      }
    }
  }
  return seen;
}

// A box is decoded where a size is taken out of its logarithm.
bool DecodesBoxes(const onnx::NodeProto& node, const GraphIndex& index) {
  if (!IsOp(node, "Exp")) return false;
  const auto* reader = index.OnlyConsumer(node.output(0));
  return reader != nullptr && IsOp(*reader, "Mul");
}

}  // namespace

std::string_view DenseBlockKindName(DenseBlock::Kind kind) {
  switch (kind) {
    case DenseBlock::Kind::kMlp:
      return "mlp";
    case DenseBlock::Kind::kAttention:
      return "attention";
    case DenseBlock::Kind::kStandalone:
      return "standalone";
  }
  return "standalone";
}

std::vector<DenseBlock> FindDenseBlocks(const onnx::GraphProto& graph) {
  const std::vector<DenseLayer> layers = DenseFinder(graph).Layers();
  std::vector<DenseBlock> blocks;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool activated = !layers[i].activation.empty();
    const bool pair = i + 1 < layers.size() && layers[i + 1].activation.empty();
    if (!pair) {
      blocks.push_back({DenseBlock::Kind::kStandalone, {layers[i]}});
      continue;
    }
    blocks.push_back({activated ? DenseBlock::Kind::kMlp : DenseBlock::Kind::kAttention,
                      {layers[i], layers[i + 1]}});
    ++i;
  }
  return blocks;
}

std::vector<std::string> AttentionNodes(const onnx::GraphProto& graph) {
  static const NameSet before = {"Add",       "Mul",  "Div", "Where",
                                 "Reshape",   "Cast", "Sub", "QuantizeLinear",
                                 "Transpose", "Clip", "Max", "DequantizeLinear"};
  static const NameSet after = {"Cast",      "Dropout",        "Identity",        "Reshape",
                                "Transpose", "QuantizeLinear", "DequantizeLinear"};
  const GraphIndex index(graph);
  std::set<int> positions;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    if (!IsOp(node, "Softmax")) continue;
    const auto* score = Behind(index, node.input(0), before, 8);
    const auto* context = Ahead(index, node.output(0), after, 6);
    if (!JoinsActivations(index, score) || !JoinsActivations(index, context)) continue;
    positions.insert({index.PositionOf(*score), i, index.PositionOf(*context)});
  }
  std::vector<std::string> names;
  for (const int position : positions) names.push_back(graph.node(position).name());
  return names;
}

std::vector<std::string> ResidualAdds(const onnx::GraphProto& graph) {
  static const NameSet normalizations = {"LayerNormalization", "SimplifiedLayerNormalization",
                                         "RMSNormalization", "GroupNormalization", "ReduceMean"};
  const GraphIndex index(graph);
  std::vector<std::string> names;
  std::set<std::string, std::less<>> streams;
  for (const auto& node : graph.node()) {
    if (!IsOp(node, "Add") || !IsActivation(index, node.input(0)) ||
        !IsActivation(index, node.input(1))) {
      continue;
    }
    // Sums of tensors that are not floats belong to shapes and masks.
    const int32_t type = index.ElemType(node.output(0));
    if (type != 0 && !IsFloatType(type)) continue;
    const auto uses = index.Uses(node.output(0));
    const bool stream = std::any_of(uses.begin(), uses.end(), [&](const TensorUse& use) {
      const auto& reader = index.node(use.node);
      return normalizations.contains(reader.op_type()) ||
             (IsOp(reader, "Add") && IsActivation(index, reader.input(0)) &&
              IsActivation(index, reader.input(1)));
    });
    // The last sum of a stream feeds neither.
    if (!stream && !streams.contains(node.input(0)) && !streams.contains(node.input(1))) continue;
    streams.insert(node.output(0));
    names.push_back(node.name());
  }
  return names;
}

std::vector<std::string> PostProcessingNodes(const onnx::GraphProto& graph) {
  static const NameSet anchors = {"NonMaxSuppression", "TopK", "ScatterND"};
  const GraphIndex index(graph);
  std::vector<int> compute;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (IsComputeNode(graph.node(i))) compute.push_back(i);
  }
  // Whatever a compute layer still needs is no post-processing.
  const auto needed = Reach(index, compute, /*forward=*/false);
  std::vector<int> start;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    if (needed.contains(i)) continue;
    if (anchors.contains(node.op_type()) || DecodesBoxes(node, index)) start.push_back(i);
  }
  if (start.empty()) return {};
  const auto before = Reach(index, start, /*forward=*/false);
  const auto after = Reach(index, start, /*forward=*/true);
  std::vector<std::string> names;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!needed.contains(i) && (before.contains(i) || after.contains(i))) {
      names.push_back(graph.node(i).name());
    }
  }
  return names;
}

}  // namespace gq::graph
