#include "board_agent/backends/sim/sim_partition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::agent {
namespace {

using compile::CompilerOptions;
using compile::ModelClass;
using graph::GraphIndex;

// Below so many elements a tensor is not worth a transfer.
constexpr int64_t kSmallTensor = 100;

// Operators of the default domain that the published kernel lists and partition reports show on the
// NPU.
constexpr std::array<std::string_view, 61> kSupported = {"Abs",
                                                         "Add",
                                                         "AveragePool",
                                                         "BatchNormalization",
                                                         "Cast",
                                                         "Clip",
                                                         "Concat",
                                                         "Conv",
                                                         "ConvTranspose",
                                                         "DepthToSpace",
                                                         "DequantizeLinear",
                                                         "Div",
                                                         "Elu",
                                                         "Erf",
                                                         "Exp",
                                                         "Expand",
                                                         "Flatten",
                                                         "Gelu",
                                                         "Gemm",
                                                         "GlobalAveragePool",
                                                         "GlobalMaxPool",
                                                         "GroupNormalization",
                                                         "HardSigmoid",
                                                         "HardSwish",
                                                         "Identity",
                                                         "InstanceNormalization",
                                                         "LayerNormalization",
                                                         "LeakyRelu",
                                                         "LpNormalization",
                                                         "MatMul",
                                                         "Max",
                                                         "MaxPool",
                                                         "Min",
                                                         "Mul",
                                                         "Neg",
                                                         "PRelu",
                                                         "Pad",
                                                         "Pow",
                                                         "QuantizeLinear",
                                                         "Reciprocal",
                                                         "ReduceMax",
                                                         "ReduceMean",
                                                         "ReduceMin",
                                                         "ReduceSum",
                                                         "Relu",
                                                         "Reshape",
                                                         "Resize",
                                                         "Sigmoid",
                                                         "Slice",
                                                         "Softmax",
                                                         "Softplus",
                                                         "SpaceToDepth",
                                                         "Split",
                                                         "Sqrt",
                                                         "Squeeze",
                                                         "Sub",
                                                         "Sum",
                                                         "Tanh",
                                                         "Transpose",
                                                         "Unsqueeze",
                                                         "Upsample"};
static_assert(std::is_sorted(kSupported.begin(), kSupported.end()));

bool IsSupported(const onnx::NodeProto& node) {
  const bool default_domain = node.domain().empty() || node.domain() == "ai.onnx";
  return default_domain &&
         std::binary_search(kSupported.begin(), kSupported.end(), std::string_view(node.op_type()));
}

bool IsQuantize(const onnx::NodeProto& node) { return node.op_type() == "QuantizeLinear"; }
bool IsDequantize(const onnx::NodeProto& node) { return node.op_type() == "DequantizeLinear"; }

// Operators that only move data keep whatever type they get.
bool IsDataMovement(const onnx::NodeProto& node) {
  static const std::set<std::string_view> kMovers = {
      "Concat", "DepthToSpace", "Expand", "Flatten", "Identity",  "Pad",      "Reshape",
      "Slice",  "SpaceToDepth", "Split",  "Squeeze", "Transpose", "Unsqueeze"};
  return kMovers.contains(node.op_type());
}

// Looks at one model; the answer for each node is a message, or nothing when the NPU takes it.
class SimDevice {
 public:
  SimDevice(const graph::Model& model, const compile::Classification& classification,
            const CompilerOptions& options)
      : model_(model),
        index_(model.graph()),
        quantized_(classification.model_class == ModelClass::kPureVint8 ||
                   classification.model_class == ModelClass::kTwoIsland ||
                   classification.model_class == ModelClass::kMultiIsland),
        converts_float_(options.f32_to_bf16.value_or(false) || options.f32_to_f16.value_or(false) ||
                        classification.model_class == ModelClass::kSpecialized) {
    for (const std::string& argument : options.fe_args) {
      edge_input_ |=
          argument == "input-quantization-in-rt=1" || argument == "edge-quantization-in-rt=1";
      edge_output_ |=
          argument == "output-dequantization-in-rt=1" || argument == "edge-quantization-in-rt=1";
    }
  }

  const GraphIndex& index() const { return index_; }

  std::optional<std::string> WhyNot(const onnx::NodeProto& node) const {
    if (node.domain() == "com.amd.quark") {
      if (converts_float_) return std::nullopt;
      return Message("FE", node, "is not a registered function/op");
    }
    if (!IsSupported(node)) return WhyUnsupported(node);
    if (IsQuantize(node) || IsDequantize(node)) return WhyNotQuantization(node);
    if (const int32_t type = OutputType(node); type == onnx::TensorProto::INT64) {
      return Message("FE", node, "works on int64 shape data, a small tensor");
    }
    if (!converts_float_ && !IsInt8(node) && !IsDataMovement(node)) {
      return Message("MLLIB", node, "YAML constraint not met: config.dtype float32");
    }
    return std::nullopt;
  }

  // Between a DequantizeLinear at every float input and a QuantizeLinear behind it, possibly with
  // activations that are computed along.
  bool IsInt8(const onnx::NodeProto& node) const {
    if (IsQuantize(node) || IsDequantize(node)) return true;
    return quantized_ && InputsAreInt8(node, 0) && OutputIsQuantized(node, 0);
  }

  int64_t Ops(const onnx::NodeProto& node) const {
    if (const int64_t macs = graph::Macs(node, index_); macs > 0) return 2 * macs;
    int64_t elements = 0;
    if (IsDataMovement(node)) return 0;
    for (const std::string& output : node.output()) elements += Elements(output);
    return elements;
  }

  std::string Kernel(const onnx::NodeProto& node) const {
    const bool int8 = IsInt8(node);
    const std::string name = node.op_type() == "Conv" ? "Conv2d" : node.op_type();
    if (IsQuantize(node)) return base::StrCat("kernel:", name, "(bf16) -> (i8)");
    if (IsDequantize(node)) return base::StrCat("kernel:", name, "(i8) -> (bf16)");
    if (graph::IsComputeNode(node)) {
      return int8 ? base::StrCat("kernel:", name, "(i8, i8, i16) -> (i8)")
                  : base::StrCat("kernel:", name, "Bf16(bf16, bf16) -> (bf16)");
    }
    return int8 ? base::StrCat("kernel:", name, "(i8) -> (i8)")
                : base::StrCat("kernel:", name, "Bf16(bf16) -> (bf16)");
  }

 private:
  static constexpr int kMaxChain = 4;

  static std::string Message(std::string_view stage, const onnx::NodeProto& node,
                             std::string_view text) {
    return base::StrCat("[", stage, "] onnx.", node.op_type(), " ", text);
  }

  std::optional<std::string> WhyUnsupported(const onnx::NodeProto& node) const {
    if (node.op_type() == "Where") return Message("FE", node, "becomes tosa.select on i1");
    return Message("FE", node, "has no lowering for this device");
  }

  std::optional<std::string> WhyNotQuantization(const onnx::NodeProto& node) const {
    if (!HasPowerOfTwoScale(node)) {
      return Message("FE", node,
                     "standalone: its scale is no power of two or its zero point is not 0");
    }
    // Q on the way in and DQ on the way out have no partner inside the graph.
    if (IsQuantize(node) && index_.IsGraphInput(graph::InputName(node, 0)) && !edge_input_) {
      return Message("FE", node, "standalone at the edge of the graph");
    }
    if (IsDequantize(node) && index_.IsGraphOutput(graph::OutputName(node, 0)) && !edge_output_ &&
        !converts_float_) {
      return Message("FE", node, "standalone at the edge of the graph");
    }
    return std::nullopt;
  }

  bool HasPowerOfTwoScale(const onnx::NodeProto& node) const {
    const onnx::TensorProto* scale = index_.Initializer(graph::InputName(node, 1));
    if (scale == nullptr) return false;
    const auto scales = model_.Data(*scale);
    if (!scales.ok()) return false;
    const auto values = scales->ToFloats();
    if (!values.ok()) return false;
    for (const float value : *values) {
      int exponent;
      if (std::frexp(value, &exponent) != 0.5F) return false;
    }
    const onnx::TensorProto* zero = index_.Initializer(graph::InputName(node, 2));
    if (zero == nullptr) return graph::InputName(node, 2).empty();
    const auto zeros = model_.Data(*zero);
    if (!zeros.ok()) return false;
    return std::all_of(zeros->bytes().begin(), zeros->bytes().end(),
                       [](std::byte b) { return b == std::byte{0}; });
  }

  bool InputsAreInt8(const onnx::NodeProto& node, int depth) const {
    bool any = false;
    for (const std::string& input : node.input()) {
      if (input.empty() || index_.IsInitializer(input)) continue;
      const int32_t type = index_.ElemType(input);
      if (type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32) continue;
      const onnx::NodeProto* producer = index_.Producer(input);
      if (producer == nullptr) return false;
      if (!IsDequantize(*producer) &&
          (depth >= kMaxChain || index_.OnlyConsumer(input) == nullptr || IsQuantize(*producer) ||
           !InputsAreInt8(*producer, depth + 1))) {
        return false;
      }
      any = true;
    }
    return any;
  }

  bool OutputIsQuantized(const onnx::NodeProto& node, int depth) const {
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      const auto uses = index_.Uses(output);
      if (uses.empty() || index_.IsGraphOutput(output)) return false;
      for (const graph::TensorUse& use : uses) {
        const onnx::NodeProto& consumer = index_.node(use.node);
        if (IsQuantize(consumer)) continue;
        if (depth >= kMaxChain || uses.size() > 1 || graph::IsComputeNode(consumer) ||
            !OutputIsQuantized(consumer, depth + 1)) {
          return false;
        }
      }
    }
    return true;
  }

  int32_t OutputType(const onnx::NodeProto& node) const {
    if (node.output_size() == 0) return 0;
    const int32_t type = index_.ElemType(node.output(0));
    return type == onnx::TensorProto::INT64 && Elements(node.output(0)) >= kSmallTensor ? 0 : type;
  }

  int64_t Elements(std::string_view tensor) const {
    const auto shape = index_.StaticShape(tensor);
    if (!shape) return 0;
    int64_t elements = 1;
    for (const int64_t dim : *shape) elements *= dim;
    return elements;
  }

  const graph::Model& model_;
  const GraphIndex index_;
  const bool quantized_;
  const bool converts_float_;
  bool edge_input_ = false;
  bool edge_output_ = false;
};

// Rank of a node in the order of execution: 2k for NPU subgraph k, 2k - 1 for the CPU part before
// it. A rank never falls along an edge, so that the parts can run one after the other.
std::vector<int> Ranks(const GraphIndex& index, const std::vector<bool>& on_npu) {
  const onnx::GraphProto& graph = index.graph();
  std::vector<int> ranks(on_npu.size());
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    int rank = -1;
    const auto follow = [&](std::string_view tensor) {
      const int producer = index.ProducerPosition(tensor);
      if (producer >= 0 && producer < i)
        rank = std::max(rank, ranks[static_cast<size_t>(producer)]);
    };
    for (const std::string& input : node.input()) follow(input);
    for (const std::string& name : graph::CapturedNames(node)) follow(name);
    const bool is_even = rank % 2 == 0;
    if (on_npu[static_cast<size_t>(i)] != is_even) ++rank;
    ranks[static_cast<size_t>(i)] = rank;
  }
  return ranks;
}

}  // namespace

int64_t SimPartitioning::offloaded_nodes() const {
  int64_t sum = 0;
  for (const SimSubgraph& s : subgraphs) {
    if (!s.below_threshold && !s.above_max) sum += static_cast<int64_t>(s.nodes.size());
  }
  return sum;
}

int64_t SimPartitioning::offloaded_ops() const {
  int64_t sum = 0;
  for (const SimSubgraph& s : subgraphs) {
    if (!s.below_threshold && !s.above_max) sum += s.ops;
  }
  return sum;
}

int SimPartitioning::offloaded_subgraphs() const {
  return static_cast<int>(
      std::count_if(subgraphs.begin(), subgraphs.end(),
                    [](const SimSubgraph& s) { return !s.below_threshold && !s.above_max; }));
}

SimPartitioning PartitionForSim(const graph::Model& model,
                                const compile::Classification& classification,
                                const CompilerOptions& options) {
  const SimDevice device(model, classification, options);
  const onnx::GraphProto& graph = model.graph();
  SimPartitioning result;
  result.nodes = graph.node_size();
  std::vector<bool> on_npu;
  for (int i = 0; i < graph.node_size(); ++i) {
    std::optional<std::string> why = device.WhyNot(graph.node(i));
    on_npu.push_back(!why);
    result.ops += device.Ops(graph.node(i));
    if (why) result.fallbacks.push_back({i, *std::move(why)});
  }
  const std::vector<int> ranks = Ranks(device.index(), on_npu);
  std::map<int, SimSubgraph> npu;
  std::set<int> cpu;
  for (int i = 0; i < graph.node_size(); ++i) {
    const int rank = ranks[static_cast<size_t>(i)];
    if (!on_npu[static_cast<size_t>(i)]) {
      cpu.insert(rank);
      continue;
    }
    SimSubgraph& subgraph = npu[rank];
    const int64_t ops = device.Ops(graph.node(i));
    subgraph.nodes.push_back(i);
    subgraph.ops += ops;
    if (device.IsInt8(graph.node(i))) subgraph.int8_ops += ops;
    result.supported_ops += ops;
    ++result.supported_nodes;
  }
  int offloaded = 0;
  for (auto& [rank, subgraph] : npu) {
    const double percent =
        result.ops > 0 ? 100.0 * static_cast<double>(subgraph.ops) / static_cast<double>(result.ops)
                       : 100.0;
    subgraph.below_threshold = percent < options.threshold_gops_percent;
    subgraph.above_max = !subgraph.below_threshold && offloaded >= kSimMaxSubgraphs;
    if (subgraph.below_threshold || subgraph.above_max) {
      cpu.insert(rank);
    } else {
      ++offloaded;
      for (const int node : subgraph.nodes) ++result.kernels[device.Kernel(graph.node(node))];
    }
    result.subgraphs.push_back(std::move(subgraph));
  }
  // Neighbouring CPU parts are one partition.
  int last = -10;
  for (const int rank : cpu) {
    if (rank != last + 1) ++result.cpu_partitions;
    last = rank;
  }
  return result;
}

}  // namespace gq::agent
