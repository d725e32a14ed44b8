#include "common/graph/analysis.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "common/base/text.h"
#include "common/graph/pinning.h"
#include "common/graph/task_detection.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using NameSet = std::set<std::string, std::less<>>;

const NameSet& ComputeOps() {
  static const NameSet ops = {"Conv",
                              "ConvTranspose",
                              "Gemm",
                              "MatMul",
                              "LSTM",
                              "GRU",
                              "RNN",
                              "DeformConv",
                              "FusedConv",
                              "FusedGemm",
                              "FusedMatMul",
                              "QLinearConv",
                              "QLinearMatMul",
                              "ConvInteger",
                              "MatMulInteger",
                              "QGemm",
                              "MatMulIntegerToFloat",
                              "DynamicQuantizeMatMul",
                              "MatMulNBits"};
  return ops;
}

const NameSet& QuantizedOps() {
  static const NameSet ops = {"QLinearConv",
                              "QLinearMatMul",
                              "ConvInteger",
                              "MatMulInteger",
                              "DynamicQuantizeLinear",
                              "QGemm",
                              "MatMulIntegerToFloat",
                              "DynamicQuantizeMatMul",
                              "DynamicQuantizeLSTM",
                              "QAttention",
                              "MatMulNBits",
                              "GatherBlockQuantized",
                              "MatMulBnb4",
                              "MatMulFpQ4",
                              "QMoE",
                              "QEmbedLayerNormalization"};
  return ops;
}

bool IsQuantize(const onnx::NodeProto& node) {
  return node.op_type().ends_with("QuantizeLinear") &&
         !node.op_type().ends_with("DequantizeLinear") && node.op_type() != "DynamicQuantizeLinear";
}

bool IsDequantize(const onnx::NodeProto& node) {
  return node.op_type().ends_with("DequantizeLinear");
}

TensorInfo Describe(const onnx::ValueInfoProto& info) {
  TensorInfo result;
  result.name = info.name();
  result.dtype = DTypeName(info.type().tensor_type().elem_type());
  for (const auto& dim : info.type().tensor_type().shape().dim()) {
    result.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  }
  return result;
}

void CountOperators(const onnx::GraphProto& graph, Analysis* analysis) {
  for (const auto& node : graph.node()) {
    ++analysis->nodes;
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    ++analysis
          ->operators[standard ? node.op_type() : base::StrCat(node.domain(), ".", node.op_type())];
    ForEachSubgraph(node, [&](const auto& inner) { CountOperators(inner, analysis); });
  }
}

bool HasQuantize(const onnx::GraphProto& graph, ModelState* state) {
  bool qdq = false;
  for (const auto& node : graph.node()) {
    const bool quantize = node.op_type().find("Quantize") != std::string::npos ||
                          node.op_type().find("quantize") != std::string::npos;
    if (node.domain() == "com.amd.quark" && quantize) {
      *state = ModelState::kSpecialized;
      return true;
    }
    if (IsQuantize(node) || IsDequantize(node)) {
      qdq = true;
    } else if (QuantizedOps().contains(node.op_type()) || node.op_type().starts_with("QLinear") ||
               node.op_type().starts_with("QOrdered")) {
      *state = ModelState::kQOperator;
    }
    ForEachSubgraph(node, [&](const auto& inner) {
      ModelState inside = ModelState::kFloat;
      qdq = HasQuantize(inner, &inside) || qdq;
      if (inside != ModelState::kFloat) *state = inside;
    });
    if (*state == ModelState::kSpecialized) return true;
  }
  if (qdq) *state = ModelState::kQdq;
  return qdq;
}

// Groups of nodes that exchange float tensors without quantization between them.
class Islands {
 public:
  explicit Islands(const GraphIndex& index) : index_(index), parent_(index.graph().node_size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int i = 0; i < index.graph().node_size(); ++i) {
      if (IsBorder(index.node(i))) continue;
      for (const auto& input : index.node(i).input()) {
        const int producer = index.ProducerPosition(input);
        if (producer >= 0 && !IsBorder(index.node(producer))) Join(i, producer);
      }
    }
  }

  // Names of the float compute nodes of each group that has any, in graph order.
  std::vector<std::vector<std::string>> Float() {
    std::map<int, std::vector<std::string>> groups;
    for (int i = 0; i < index_.graph().node_size(); ++i) {
      const auto& node = index_.node(i);
      if (IsComputeNode(node) && !IsQuantized(node)) groups[Root(i)].push_back(node.name());
    }
    std::vector<std::vector<std::string>> result;
    for (auto& [root, names] : groups) result.push_back(std::move(names));
    return result;
  }

  // A compute node whose data and weights come out of a DequantizeLinear, or that works on integers
  // itself.
  bool IsQuantized(const onnx::NodeProto& node) const {
    if (QuantizedOps().contains(node.op_type()) || node.op_type().starts_with("QLinear")) {
      return true;
    }
    return node.input_size() >= 2 && FromDequantize(node.input(0)) && FromDequantize(node.input(1));
  }

 private:
  static bool IsBorder(const onnx::NodeProto& node) {
    return IsQuantize(node) || IsDequantize(node);
  }

  bool FromDequantize(std::string_view tensor) const {
    static const NameSet passing = {"Reshape", "Transpose", "Squeeze", "Unsqueeze",
                                    "Flatten", "Cast",      "Identity"};
    for (int hop = 0; hop < 5; ++hop) {
      const auto* producer = index_.Producer(tensor);
      if (producer == nullptr) return false;
      if (IsDequantize(*producer)) return true;
      if (!passing.contains(producer->op_type())) return false;
      tensor = producer->input(0);
    }
    return false;
  }

  int Root(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  // The earlier node becomes the root, so that groups are in graph order.
  void Join(int a, int b) {
    a = Root(a);
    b = Root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

  const GraphIndex& index_;
  std::vector<int> parent_;
};

int64_t Product(const std::vector<int64_t>& values, size_t from = 0) {
  int64_t product = 1;
  for (size_t i = from; i < values.size(); ++i) product *= values[i];
  return product;
}

int64_t RecurrentMacs(const onnx::NodeProto& node, const GraphIndex& index) {
  const auto x = index.StaticShape(InputName(node, 0));
  const auto w = index.StaticShape(InputName(node, 1));
  const auto r = index.StaticShape(InputName(node, 2));
  if (!x || !w || !r || x->size() != 3) return 0;
  return (*x)[0] * (*x)[1] * (Product(*w) + Product(*r));
}

}  // namespace

std::string_view ModelStateName(ModelState state) {
  switch (state) {
    case ModelState::kFloat:
      return "float";
    case ModelState::kQdq:
      return "qdq";
    case ModelState::kSpecialized:
      return "specialized";
    case ModelState::kQOperator:
      return "qoperator";
  }
  return "float";
}

ModelState StateOf(const onnx::GraphProto& graph) {
  ModelState state = ModelState::kFloat;
  HasQuantize(graph, &state);
  return state;
}

bool IsComputeNode(const onnx::NodeProto& node) {
  return IsKnownDomain(node.domain()) && ComputeOps().contains(node.op_type());
}

std::vector<std::string> ComputeLayers(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.node()) {
    if (IsComputeNode(node)) names.push_back(node.name());
  }
  return names;
}

int64_t Macs(const onnx::NodeProto& node, const GraphIndex& index) {
  const std::string& op = node.op_type();
  if (op == "LSTM" || op == "GRU" || op == "RNN") return RecurrentMacs(node, index);
  if (!IsComputeNode(node)) return 0;
  const bool qlinear = op.starts_with("QLinear") || op == "QGemm";
  const auto x = index.StaticShape(InputName(node, 0));
  const auto w = index.StaticShape(InputName(node, qlinear ? 3 : 1));
  const auto y = index.StaticShape(OutputName(node, 0));
  if (!x || !w || !y) return 0;
  if (op.find("ConvTranspose") != std::string::npos) return Product(*x) * Product(*w, 1);
  if (op.find("Conv") != std::string::npos) return Product(*y) * Product(*w, 1);
  if (op == "MatMulNBits") return Product(*y) * AttributeInt(node, "K", 0);
  if (x->empty()) return 0;
  if (op == "Gemm" || op == "QGemm") {
    const bool transposed = AttributeInt(node, "transA", 0) != 0;
    return x->size() == 2 ? Product(*y) * (transposed ? (*x)[0] : (*x)[1]) : 0;
  }
  return Product(*y) * x->back();
}

Analysis Analyze(const Model& model) {
  const auto& graph = model.graph();
  const GraphIndex index(graph);
  Analysis analysis;
  analysis.state = StateOf(graph);
  CountOperators(graph, &analysis);
  for (const auto& input : graph.input()) analysis.inputs.push_back(Describe(input));
  for (const auto& output : graph.output()) analysis.outputs.push_back(Describe(output));
  for (const auto& tensor : graph.initializer()) {
    analysis.parameter_bytes += model.DataBytes(tensor);
    if (!IsFloatType(tensor.data_type())) continue;
    const auto count = ElementCount(Dims(tensor));
    if (count.ok()) analysis.parameters += *count;
  }
  Islands islands(index);
  for (const auto& node : graph.node()) {
    if (!IsComputeNode(node)) continue;
    ++analysis.compute_layers;
    analysis.macs += Macs(node, index);
    if (islands.IsQuantized(node)) ++analysis.quantized_compute_layers;
  }
  if (analysis.state == ModelState::kQdq || analysis.state == ModelState::kSpecialized) {
    analysis.float_islands = islands.Float();
  }
  TaskGuess guess = DetectTask(index);
  analysis.task = guess.task;
  analysis.task_reason = std::move(guess.reason);
  return analysis;
}

}  // namespace gq::graph
