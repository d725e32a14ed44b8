// QLinear* and QGemm: operators that read and write integers with their parameters beside them.
#include <utility>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::AttributeInt;
using graph::InputName;
using onnx::NodeProto;

// A quantized operand: its value, scale and zero point, and the axis of scales for each channel.
struct Operand {
  int value;
  int scale;
  int zero_point;
  int axis = 1;
};

struct QLinear {
  std::string_view op_type;
  std::string_view float_type;
  std::vector<Operand> operands;
  int scale;  // of the result
  int zero_point;
  std::vector<std::string_view> dropped = {};  // attributes without meaning for floats
};

const std::vector<QLinear>& Table() {
  static const auto& table = *new std::vector<QLinear>{
      {"QLinearConv", "Conv", {{0, 1, 2}, {3, 4, 5, 0}}, 6, 7, {"channels_last"}},
      {"QLinearConvTranspose", "ConvTranspose", {{0, 1, 2}, {3, 4, 5, 1}}, 6, 7},
      {"QLinearMatMul", "MatMul", {{0, 1, 2, -2}, {3, 4, 5, -1}}, 6, 7},
      {"QLinearAdd", "Add", {{0, 1, 2}, {3, 4, 5}}, 6, 7},
      {"QLinearMul", "Mul", {{0, 1, 2}, {3, 4, 5}}, 6, 7},
      {"QLinearSigmoid", "Sigmoid", {{0, 1, 2}}, 3, 4},
      {"QLinearLeakyRelu", "LeakyRelu", {{0, 1, 2}}, 3, 4},
      {"QLinearAveragePool", "AveragePool", {{0, 1, 2}}, 3, 4, {"channels_last"}},
      {"QLinearGlobalAveragePool", "GlobalAveragePool", {{0, 1, 2}}, 3, 4, {"channels_last"}},
      {"QLinearSoftmax", "Softmax", {{0, 1, 2}}, 3, 4, {"opset"}},
      {"QLinearReduceMean", "ReduceMean", {{0, 1, 2}}, 3, 4},
      {"QLinearWhere", "Where", {{1, 2, 3}, {4, 5, 6}}, 7, 8},
  };
  return table;
}

const QLinear* Entry(const NodeProto& node) {
  for (const QLinear& entry : Table()) {
    if (entry.op_type == node.op_type()) return &entry;
  }
  return nullptr;
}

Grid GridOf(const NodeProto& node, const Operand& operand) {
  Grid grid = GridAt(node, operand.scale, operand.zero_point);
  grid.axis = operand.axis;
  grid.block_size = 0;
  return grid;
}

// ONNX Runtime's quantizer appends _quant to the names of nodes.
std::string FloatName(const NodeProto& node, Stripper& stripper) {
  std::string_view name = node.name();
  if (!name.ends_with("_quant") || name.size() == 6) return node.name();
  name.remove_suffix(6);
  return stripper.UniqueNode(name);
}

NodeProto FloatNode(const NodeProto& node, std::string_view op_type,
                    const std::vector<std::string_view>& dropped, Stripper& stripper) {
  NodeProto plain = graph::MakeNode(op_type, FloatName(node, stripper), {}, {});
  *plain.mutable_attribute() = node.attribute();
  for (const std::string_view name : dropped) graph::RemoveAttribute(name, &plain);
  stripper.Replaced(node);
  return plain;
}

// An int32 bias: its scale is the product of those of data and weights.
absl::StatusOr<std::string> Bias(const NodeProto& node, int input, const Operand& data,
                                 const Operand& weight, float factor, Stripper& stripper) {
  const std::string name(InputName(node, input));
  if (name.empty()) return name;
  GQ_ASSIGN_OR_RETURN(const std::vector<float> x,
                      stripper.ConstantFloats(InputName(node, data.scale), node));
  GQ_ASSIGN_OR_RETURN(const std::vector<float> w,
                      stripper.ConstantFloats(InputName(node, weight.scale), node));
  if (x.size() != 1 || stripper.Constant(name) == nullptr) {
    return stripper.Refuse(node, "its bias is computed, or its data has several scales");
  }
  GridValues values;
  for (const float scale : w) values.scale.push_back(factor * x[0] * scale);
  values.axis = -1;  // a bias lies along the channels
  return stripper.RealConstant(
      name, values,
      StrCat(InputName(node, data.scale), "|", InputName(node, weight.scale), "|bias|", factor));
}

// Rank of the data; 0 when nothing says it.
int RankOf(const NodeProto& node, const QLinear& entry, Stripper& stripper) {
  if (entry.float_type.starts_with("Conv")) {
    const onnx::TensorProto* weight = stripper.Constant(InputName(node, 3));
    if (weight != nullptr) return weight->dims_size();
  }
  const auto kernel = graph::AttributeInts(node, "kernel_shape");
  if (!kernel.empty()) return static_cast<int>(kernel.size()) + 2;
  const auto shape = stripper.scope().index.Shape(InputName(node, 0));
  return shape ? static_cast<int>(shape->size()) : 0;
}

absl::StatusOr<bool> Rewrite(const NodeProto& node, Stripper& stripper) {
  const QLinear& entry = *Entry(node);
  const bool channels_last = AttributeInt(node, "channels_last", 0) != 0;
  const int rank = channels_last ? RankOf(node, entry, stripper) : 0;
  if (channels_last && rank < 2) {
    return stripper.Refuse(node, "it has its channels last and the rank of its data is not known");
  }
  std::vector<std::string> inputs;
  if (entry.float_type == "Where") {
    GQ_ASSIGN_OR_RETURN(std::string condition, stripper.Plain(InputOf(node, 0), node));
    inputs.push_back(std::move(condition));
  }
  for (const Operand& operand : entry.operands) {
    const std::string value(InputName(node, operand.value));
    GQ_ASSIGN_OR_RETURN(std::string real, stripper.Real(value, GridOf(node, operand), node));
    inputs.push_back(std::move(real));
  }
  if (entry.float_type.starts_with("Conv")) {
    GQ_ASSIGN_OR_RETURN(std::string bias,
                        Bias(node, 8, entry.operands[0], entry.operands[1], 1, stripper));
    if (!bias.empty()) inputs.push_back(std::move(bias));
  }
  NodeProto plain = FloatNode(node, entry.float_type, entry.dropped, stripper);
  if (entry.float_type == "ReduceMean" && stripper.opset() >= 18) {
    const auto axes = graph::AttributeInts(node, "axes");
    graph::RemoveAttribute("axes", &plain);
    if (!axes.empty()) {
      inputs.push_back(stripper.AddConstant(
          StrCat(OutputOf(node, 0), "_axes"),
          graph::TensorView::Of<int64_t>({static_cast<int64_t>(axes.size())}, axes)));
    }
  }
  for (std::string& input : inputs) *plain.add_input() = std::move(input);
  if (channels_last) plain = ChannelsFirst(std::move(plain), rank, stripper);
  stripper.EmitQuantized(std::move(plain), OutputOf(node, 0),
                         GridAt(node, entry.scale, entry.zero_point));
  return true;
}

// (scale, zero point of the result, then value, scale, zero point of each input)
absl::StatusOr<bool> Concat(const NodeProto& node, Stripper& stripper) {
  NodeProto plain = FloatNode(node, "Concat", {}, stripper);
  for (int i = 2; i + 2 < node.input_size(); i += 3) {
    GQ_ASSIGN_OR_RETURN(*plain.add_input(),
                        stripper.Real(InputOf(node, i), GridOf(node, {i, i + 1, i + 2}), node));
  }
  stripper.EmitQuantized(std::move(plain), OutputOf(node, 0), GridAt(node, 0, 1));
  return true;
}

absl::StatusOr<bool> Gemm(const NodeProto& node, Stripper& stripper) {
  const bool transposed = AttributeInt(node, "transB", 0) != 0;
  const Operand data = {0, 1, 2};
  const Operand weight = {3, 4, 5, transposed ? 0 : 1};
  NodeProto plain = FloatNode(node, "Gemm", {}, stripper);
  for (const Operand& operand : {data, weight}) {
    GQ_ASSIGN_OR_RETURN(*plain.add_input(),
                        stripper.Real(InputOf(node, operand.value), GridOf(node, operand), node));
  }
  const float alpha = graph::AttributeFloat(node, "alpha", 1);
  GQ_ASSIGN_OR_RETURN(const std::string bias, Bias(node, 6, data, weight, alpha, stripper));
  if (!bias.empty()) plain.add_input(bias);
  stripper.EmitQuantized(std::move(plain), OutputOf(node, 0), GridAt(node, 7, 8));
  return true;
}

absl::StatusOr<bool> Unknown(const NodeProto& node, Stripper& stripper) {
  return stripper.Refuse(node, "this product does not know the operator");
}

}  // namespace

NodeProto ChannelsFirst(NodeProto node, int rank, Stripper& stripper) {
  std::vector<int64_t> forth = {0, rank - 1};
  std::vector<int64_t> back = {0};
  for (int64_t axis = 1; axis < rank - 1; ++axis) {
    forth.push_back(axis);
    back.push_back(axis + 1);
  }
  back.push_back(1);
  const auto transpose = [&](const std::string& input, std::vector<int64_t> perm,
                             std::vector<std::string> outputs) {
    NodeProto made = graph::MakeNode("Transpose", stripper.UniqueNode(StrCat(input, "_Transpose")),
                                     {input}, outputs);
    graph::SetAttribute("perm", perm, &made);
    return made;
  };
  const std::string turned = stripper.Unique(StrCat(node.input(0), "_channels_first"));
  stripper.Emit(transpose(node.input(0), forth, {turned}));
  const std::string result = stripper.Unique(StrCat(node.name(), "_channels_first"));
  node.set_input(0, turned);
  node.clear_output();
  node.add_output(result);
  stripper.Emit(std::move(node));
  return transpose(result, back, {});
}

Grid OperandGrid(const NodeProto& node, int input) {
  if (!IsQuantizedDomain(node.domain())) return {};
  if (node.op_type().ends_with("DequantizeLinear")) {
    return input == 0 ? GridAt(node, 1, 2) : Grid();
  }
  if (node.op_type() == "QLinearConcat") {
    return input >= 2 && input % 3 == 2 ? GridOf(node, {input, input + 1, input + 2}) : Grid();
  }
  if (node.op_type() == "QGemm" && (input == 0 || input == 3)) {
    return GridOf(node, {input, input + 1, input + 2});
  }
  const QLinear* entry = Entry(node);
  if (entry == nullptr) return {};
  for (const Operand& operand : entry->operands) {
    if (operand.value == input) return GridOf(node, operand);
  }
  return {};
}

StripRule FindQLinearRule(const NodeProto& node) {
  if (node.op_type() == "QLinearConcat") return Concat;
  if (node.op_type() == "QGemm") return Gemm;
  if (Entry(node) != nullptr) return Rewrite;
  return node.op_type().starts_with("QLinear") ? Unknown : nullptr;
}

}  // namespace gq::quantize
