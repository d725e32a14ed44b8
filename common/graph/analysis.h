// What a model is: its state, size, task and structure. Reads nodes, never opset imports.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"

namespace gq::graph {

// How far a model is quantized already.
enum class ModelState {
  kFloat,
  kQdq,          // QuantizeLinear/DequantizeLinear, of the default domain or com.microsoft
  kSpecialized,  // operators of com.amd.quark whose type contains "Quantize"
  kQOperator,    // QLinear*, *Integer, MatMulNBits, ... without any Q/DQ
};
std::string_view ModelStateName(ModelState state);  // "float", "qdq", "specialized", "qoperator"

enum class TaskType { kClassification, kDetection, kSegmentation, kRegression };
std::string_view TaskTypeName(TaskType task);

struct TensorInfo {
  std::string name;
  std::string dtype;           // DTypeName
  std::vector<int64_t> shape;  // -1 where not known
};

struct Analysis {
  ModelState state = ModelState::kFloat;
  int64_t nodes = 0;
  std::map<std::string, int> operators;  // "Conv", or "com.microsoft.Gelu" for other domains
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  TaskType task = TaskType::kRegression;
  std::string task_reason;
  int64_t parameters = 0;       // elements of float initializers
  int64_t parameter_bytes = 0;  // bytes of all initializers
  int64_t macs = 0;             // of the compute layers with known shapes
  int compute_layers = 0;
  // Of a QDQ model: compute layers that are quantized, and the float islands between them (ve2.md
  // f.1).
  int quantized_compute_layers = 0;
  std::vector<std::vector<std::string>> float_islands;  // names of the compute nodes of each island
};

Analysis Analyze(const Model& model);
ModelState StateOf(const onnx::GraphProto& graph);

// Conv, ConvTranspose, Gemm, MatMul with a constant weight, and their quantized forms: the layers
// that a precision is chosen for. Recurrent operators and MatMul of two activations count as
// compute too.
bool IsComputeNode(const onnx::NodeProto& node);

// Names of the compute nodes of the main graph in graph order.
std::vector<std::string> ComputeLayers(const onnx::GraphProto& graph);

// Multiply-accumulate operations of a node for one inference; 0 when it has none or shapes are not
// known.
int64_t Macs(const onnx::NodeProto& node, const GraphIndex& index);

// Feed-forward and attention blocks of a transformer (ve2.md i).
struct DenseLayer {
  std::string name;    // node name: the Gemm, or the MatMul
  std::string add;     // node name of the bias Add of a MatMul; empty for a Gemm
  std::string weight;  // initializer
  int64_t in = 0;
  int64_t out = 0;
  std::string activation;  // operator type that follows; empty for none
};
struct DenseBlock {
  enum class Kind { kMlp, kAttention, kStandalone };
  Kind kind = Kind::kStandalone;
  std::vector<DenseLayer> layers;
};
std::string_view DenseBlockKindName(DenseBlock::Kind kind);  // "mlp", "attention", "standalone"
std::vector<DenseBlock> FindDenseBlocks(const onnx::GraphProto& graph);

// Nodes that make up attention: the MatMuls of two activations around a Softmax, and that Softmax.
std::vector<std::string> AttentionNodes(const onnx::GraphProto& graph);
// Adds whose inputs are both activations and whose result feeds another such Add or a
// normalization, or that read the result of one: the residual stream.
std::vector<std::string> ResidualAdds(const onnx::GraphProto& graph);
// From the first NonMaxSuppression, TopK, ScatterND or box decoding back to the last compute layer
// before it: the nodes a detection model keeps in float. Empty when there is no such tail.
std::vector<std::string> PostProcessingNodes(const onnx::GraphProto& graph);

}  // namespace gq::graph
