// The walk over a quantized graph, and what the rules for its operators work with.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/quantize/dequantize/dequantize.h"
#include "common/quantize/dequantize/grid.h"

namespace gq::quantize {

// What a tensor of the quantized graph stands for when it is not an ordinary one.
struct Meaning {
  enum class Kind {
    kQuantized,  // integers: real / scale + zero point, by `grid`
    kSum,        // sums of products: real / (divisor * product of `factors`)
    kFactor,     // a scale found at run time: product of `factors` and `constants`
  };
  Kind kind = Kind::kQuantized;
  std::string real;  // the float tensor
  Grid grid;
  double divisor = 1;
  std::vector<std::string> factors;    // scales that DynamicQuantizeLinear found
  std::vector<std::string> constants;  // of kFactor
};

// One graph or body while it is rewritten. Nodes are read from `source`, which does not change, and
// written to `nodes`.
struct StripScope {
  explicit StripScope(const onnx::GraphProto& graph, StripScope* around)
      : source(graph), index(graph), outer(around) {}

  const onnx::GraphProto& source;
  graph::GraphIndex index;
  StripScope* outer;
  std::unordered_map<std::string, Meaning> meanings;
  std::unordered_map<std::string, std::string> aliases;   // float tensor -> the one to read
  std::unordered_map<std::string, std::string> integers;  // quantized tensor -> computed integers
  std::vector<onnx::NodeProto> nodes;
  std::unordered_map<std::string, size_t> producers;  // tensor -> position in `nodes`
};

class Stripper {
 public:
  Stripper(const graph::Model& source, graph::Model* target, DequantizeReport* report);

  // Rewrites the main graph of the target.
  absl::Status Run();

  // --- For rules -----------------------------------------------------------------------------
  const graph::Model& source() const { return source_; }
  StripScope& scope() { return *scope_; }
  DequantizeReport& report() { return *report_; }
  int64_t opset() const { return source_.Opset(); }

  const Meaning* Find(std::string_view name) const;
  // A constant of this graph or one around it; null when `name` is computed or given.
  const onnx::TensorProto* Constant(std::string_view name) const;
  absl::StatusOr<std::vector<float>> ConstantFloats(std::string_view name,
                                                    const onnx::NodeProto& node) const;
  // The data of the constant at an input of `node`; MODEL_UNSUPPORTED when it is computed.
  absl::StatusOr<graph::TensorView> ConstantView(const onnx::NodeProto& node, int input) const;
  // The node of the rewritten graph that makes a tensor; null for inputs and constants.
  const onnx::NodeProto* Made(std::string_view name) const;
  onnx::NodeProto* MutableMade(std::string_view name);

  // The tensor that an ordinary reader has to read for `name`: its alias, or integers that are
  // computed from the float tensor.
  absl::StatusOr<std::string> Plain(const std::string& name, const onnx::NodeProto& reader);
  // The float tensor for operand `name` with these parameters; "" for "".
  absl::StatusOr<std::string> Real(const std::string& name, const Grid& grid,
                                   const onnx::NodeProto& reader);
  // The float constant for integers with these values. `wanted` is its name when it is free.
  absl::StatusOr<std::string> RealConstant(const std::string& name, const GridValues& values,
                                           const std::string& key);
  absl::StatusOr<GridValues> Values(const Grid& grid, const onnx::NodeProto& reader) const;
  bool IsConstantGrid(const Grid& grid) const;
  bool SameGrid(const Grid& a, const Grid& b) const;
  // Integer type of the values of a grid: that of its zero point, else uint8.
  int32_t TypeOf(const Grid& grid) const;

  // Adds a float or int64 constant to the main graph.
  std::string AddConstant(std::string_view wanted, const graph::TensorView& data);
  // Data of a float32 constant that was added; nullopt for any other tensor.
  std::optional<graph::TensorView> NewConstant(const std::string& name) const;
  std::string AddScalar(std::string_view wanted, float value);
  // Adds a node; its inputs are tensors of the rewritten graph.
  onnx::NodeProto* Emit(onnx::NodeProto node);
  std::string Compute(std::string_view op_type, const std::vector<std::string>& inputs,
                      std::string_view wanted);
  std::string Cast(const std::string& input, int32_t type, std::string_view wanted);
  std::string Unique(std::string_view wanted) { return names_.Unique(wanted); }
  std::string UniqueNode(std::string_view wanted) { return names_.UniqueNode(wanted); }

  void Define(const std::string& output, Meaning meaning);
  void Alias(const std::string& output, const std::string& real);
  std::string Aliased(const std::string& name) const;

  // Name for the float result of a quantized operator: that of a reader that dequantizes it.
  std::string RealName(const std::string& output);
  // Adds the float form of a quantized operator with the parameters of its result, which gets its
  // meaning. The node's single output is set here.
  void EmitQuantized(onnx::NodeProto node, const std::string& output, const Grid& grid);

  // The clamp that stands over `real` already; "" for none yet.
  std::string& Clamped(const std::string& key) { return clamped_[key]; }

  void MarkReluSix(const std::string& tensor) { relu_six_.insert(tensor); }
  bool IsReluSix(const std::string& tensor) const { return relu_six_.contains(tensor); }

  // Counts for the report.
  void Removed(const onnx::NodeProto& node);
  void Replaced(const onnx::NodeProto& node);

  // MODEL_UNSUPPORTED that names the node.
  absl::Status Refuse(const onnx::NodeProto& node, std::string_view why) const;

 private:
  absl::Status Walk(const onnx::GraphProto& source, onnx::GraphProto* target, StripScope* outer);
  absl::Status Node(const onnx::NodeProto& node);
  absl::Status Ordinary(const onnx::NodeProto& node);
  absl::StatusOr<bool> Bodies(onnx::NodeProto* node);
  absl::Status FinishOutputs(onnx::GraphProto* target);
  absl::Status FinishOutput(const std::string& name, onnx::ValueInfoProto* info,
                            std::map<std::string, std::string>* renamed);
  // Gives integer inputs and constants that go through pass-through operators their meaning.
  absl::Status FindMeanings(onnx::GraphProto* target);
  absl::StatusOr<std::string> Integers(const std::string& name, const Meaning& meaning,
                                       const onnx::NodeProto& reader);
  absl::StatusOr<std::string> Rescaled(const Meaning& meaning, const Grid& grid,
                                       const onnx::NodeProto& reader);
  absl::StatusOr<std::string> FromIntegers(const std::string& name, const Grid& grid,
                                           const onnx::NodeProto& reader);
  absl::StatusOr<std::string> Spread(const std::string& parameter, const Grid& grid,
                                     const std::string& tensor, const onnx::NodeProto& reader);

  const graph::Model& source_;
  graph::Model* target_;
  DequantizeReport* report_;
  graph::NameScope names_;
  StripScope* scope_ = nullptr;
  std::map<std::string, graph::TensorView> added_;  // float constants by name
  std::map<std::string, std::string> constants_;    // key of RealConstant -> name
  std::map<std::string, std::string> clamped_;
  std::set<std::string> relu_six_;
};

// Ends the name of a constant that holds integers less their zero point, not yet scaled.
inline constexpr std::string_view kCentered = "_centered";

// How an operator is rewritten. True when it was; false leaves it to the ordinary way.
using StripRule = absl::StatusOr<bool> (*)(const onnx::NodeProto& node, Stripper& stripper);

// The rule for a node; null for an operator that knows no quantization. Each of the tables is in
// the file of its name.
StripRule FindRule(const onnx::NodeProto& node);
StripRule FindQdqRule(const onnx::NodeProto& node);
StripRule FindPassingRule(const onnx::NodeProto& node);
StripRule FindQLinearRule(const onnx::NodeProto& node);
StripRule FindIntegerRule(const onnx::NodeProto& node);
StripRule FindContribRule(const onnx::NodeProto& node);
StripRule FindPackedRule(const onnx::NodeProto& node);

// Takes a Mul by a constant out that undoes another one over a Cast pair, or that stands for the
// NPU's arithmetic (dpu_simulation.h).
absl::StatusOr<bool> UndoFactor(const onnx::NodeProto& node, Stripper& stripper);

// For an operator whose data, its first input, has the channels last: gives it a Transpose in
// front, emits it, and returns the Transpose that brings its result back, which has no output yet.
onnx::NodeProto ChannelsFirst(onnx::NodeProto node, int rank, Stripper& stripper);

// Element `at` of integers of 1, 2, 4 or 8 bits that lie densely packed, the lowest first.
int PackedInteger(std::span<const uint8_t> bytes, int64_t at, int64_t bits);
// Larger extents of packed weights are taken for damage.
inline constexpr int64_t kMostPackedExtent = int64_t{1} << 28;

// Parameters of the operand at `input` of a DequantizeLinear or QLinear operator; an empty scale
// when that input is not such an operand.
Grid OperandGrid(const onnx::NodeProto& node, int input);
Grid GridAt(const onnx::NodeProto& node, int scale, int zero_point);
// Inputs of a pass-through operator that hold values of the same parameters as its results.
std::vector<int> PassingInputs(const onnx::NodeProto& node);

// The operator whose work a range does (docs/dequantize.md, "Ranges that are operators"): a Relu
// where it starts at zero, a Relu6 where it also ends at 6, unless the tensor has these bounds
// anyway.
enum class Clamp { kNone, kRelu, kReluSix };
Clamp ClampOf(const std::string& real, const Grid& grid, const Stripper& stripper);
void EmitClamp(Clamp clamp, const std::string& input, const std::string& output,
               Stripper& stripper);
// `real`, or the output of that operator over it.
std::string Saturated(const std::string& real, const Grid& grid, Stripper& stripper);

// Input or output by position; empty when the node has fewer, which nobody checks in foreign
// domains.
inline std::string InputOf(const onnx::NodeProto& node, int position) {
  return std::string(graph::InputName(node, position));
}
inline std::string OutputOf(const onnx::NodeProto& node, int position) {
  return std::string(graph::OutputName(node, position));
}

// Default domain or one of the domains that hold quantized operators.
bool IsQuantizedDomain(std::string_view domain);

}  // namespace gq::quantize
