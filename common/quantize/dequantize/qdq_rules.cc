// QuantizeLinear, DequantizeLinear and their kin, Cast pairs, factors around them.
#include <cmath>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"
#include "common/quantize/dpu_simulation.h"

namespace gq::quantize {
namespace {

using graph::AttributeInt;
using graph::InputName;
using graph::IsOp;
using onnx::NodeProto;
using onnx::TensorProto;

bool IsDequantize(const NodeProto& node) { return node.op_type().ends_with("DequantizeLinear"); }

bool IsQuantize(const NodeProto& node) {
  return node.op_type().ends_with("QuantizeLinear") && node.op_type() != "DynamicQuantizeLinear";
}

absl::StatusOr<bool> Quantize(const NodeProto& node, Stripper& stripper) {
  const Grid grid = GridAt(node, 1, 2);
  GQ_ASSIGN_OR_RETURN(const std::string real, stripper.Plain(InputOf(node, 0), node));
  stripper.Removed(node);
  stripper.Define(OutputOf(node, 0), {.real = Saturated(real, grid, stripper), .grid = grid});
  return true;
}

// Sums of products times a scale.
absl::StatusOr<std::string> ScaledSum(const Meaning& sum, const NodeProto& node,
                                      Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const std::vector<float> scale,
                      stripper.ConstantFloats(InputOf(node, 1), node));
  if (scale.size() != 1 || !sum.factors.empty()) {
    return stripper.Refuse(node, "its sums have other scales than this operator undoes");
  }
  const auto factor = static_cast<float>(scale[0] / sum.divisor);
  if (factor == 1) return sum.real;
  const std::string scalar = stripper.AddScalar(base::StrCat(sum.real, "_factor"), factor);
  return stripper.Compute("Mul", {sum.real, scalar}, base::StrCat(sum.real, "_rescaled"));
}

absl::StatusOr<bool> Dequantize(const NodeProto& node, Stripper& stripper) {
  const Meaning* meaning = stripper.Find(InputOf(node, 0));
  std::string real;
  if (meaning != nullptr && meaning->kind == Meaning::Kind::kSum) {
    const Meaning sum = *meaning;
    GQ_ASSIGN_OR_RETURN(real, ScaledSum(sum, node, stripper));
  } else {
    GQ_ASSIGN_OR_RETURN(real, stripper.Real(InputOf(node, 0), GridAt(node, 1, 2), node));
  }
  stripper.Removed(node);
  stripper.Alias(OutputOf(node, 0), real);
  return true;
}

// BFPQuantizeDequantize, MXQuantizeDequantize and the like: one float tensor in, one out.
absl::StatusOr<bool> PassBy(const NodeProto& node, Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const std::string real, stripper.Plain(InputOf(node, 0), node));
  stripper.Removed(node);
  stripper.Alias(OutputOf(node, 0), real);
  return true;
}

bool IsReduced(int64_t type) {
  return type == TensorProto::BFLOAT16 || type == TensorProto::FLOAT16;
}

// A Cast to 16 bits whose only readers cast back to float32, or that reads float32 values at all in
// the case of bfloat16 (which no operator of a float model computes in).
absl::StatusOr<bool> CastRule(const NodeProto& node, Stripper& stripper) {
  const graph::GraphIndex& index = stripper.scope().index;
  const int64_t to = AttributeInt(node, "to", 0);
  const Meaning* meaning = stripper.Find(InputOf(node, 0));
  if (meaning != nullptr && meaning->kind != Meaning::Kind::kQuantized &&
      to == TensorProto::FLOAT) {
    stripper.Define(OutputOf(node, 0), Meaning(*meaning));
    return true;
  }
  if (to == TensorProto::FLOAT) {
    // The second half of a pair whose first half went.
    const NodeProto* before = index.Producer(InputOf(node, 0));
    const bool half = before != nullptr && IsOp(*before, "Cast") &&
                      IsReduced(AttributeInt(*before, "to", 0)) &&
                      stripper.Made(InputOf(node, 0)) == nullptr;
    if (!half) return false;
    stripper.Removed(node);
    stripper.Alias(OutputOf(node, 0), stripper.Aliased(InputOf(node, 0)));
    return true;
  }
  if (!IsReduced(to) || meaning != nullptr) return false;
  const int32_t from = index.ElemType(InputOf(node, 0));
  if (from != TensorProto::FLOAT && from != TensorProto::UNDEFINED) return false;
  const bool inner = !index.IsGraphOutput(OutputOf(node, 0));
  bool pairs = inner && !index.Uses(OutputOf(node, 0)).empty();
  for (const graph::TensorUse& use : index.Uses(OutputOf(node, 0))) {
    pairs = pairs && use.input == 0 && IsOp(index.node(use.node), "Cast") &&
            AttributeInt(index.node(use.node), "to", 0) == TensorProto::FLOAT;
  }
  if (!pairs) return false;
  stripper.Removed(node);
  stripper.Alias(OutputOf(node, 0), stripper.Aliased(InputOf(node, 0)));
  return true;
}

// A scalar constant among the inputs of a Mul; -1 for none.
int ScalarInput(const NodeProto& node, const Stripper& stripper, double* value) {
  for (int i = 0; i < 2 && node.input_size() == 2; ++i) {
    const TensorProto* tensor = stripper.Constant(InputOf(node, i));
    if (tensor == nullptr || tensor->data_type() != TensorProto::FLOAT) continue;
    const auto view = stripper.source().Data(*tensor);
    if (!view.ok() || view->size() != 1) continue;
    *value = view->At(0);
    return i;
  }
  return -1;
}

// x * 1/s, Cast pair, * s: the second Mul undoes the first.
bool UndoesFactor(const NodeProto& node, int data, double factor, Stripper& stripper,
                  std::string* real) {
  const graph::GraphIndex& index = stripper.scope().index;
  const NodeProto* back = index.Producer(InputOf(node, data));
  if (back == nullptr || !IsOp(*back, "Cast")) return false;
  const NodeProto* there = index.Producer(InputOf(*back, 0));
  if (there == nullptr || !IsOp(*there, "Cast") || !IsReduced(AttributeInt(*there, "to", 0))) {
    return false;
  }
  const NodeProto* first = index.Producer(InputOf(*there, 0));
  if (first == nullptr || !IsOp(*first, "Mul")) return false;
  double other = 0;
  const int scalar = ScalarInput(*first, stripper, &other);
  if (scalar < 0 || std::abs(other * factor - 1) > 1e-5) return false;
  *real = stripper.Aliased(first->input(1 - scalar));
  return true;
}

// The factor that stands for the NPU's arithmetic after an average or a HardSigmoid.
bool IsHardwareFactor(const NodeProto& node, int data, double factor, Stripper& stripper) {
  const graph::GraphIndex& index = stripper.scope().index;
  const NodeProto* before = index.Producer(InputOf(node, data));
  if (before == nullptr || factor == 1) return false;
  double expected = 0;
  if (IsOp(*before, "HardSigmoid")) {
    expected = kHardSigmoidFactor;
  } else if (IsOp(*before, "AveragePool")) {
    const auto kernel = graph::AttributeInts(*before, "kernel_shape");
    if (kernel.size() != 2 || kernel[0] != kernel[1]) return false;
    expected = AveragePoolFactor(kernel[0], kernel[1]);
  } else if (IsOp(*before, "GlobalAveragePool")) {
    const auto shape = index.StaticShape(InputOf(*before, 0));
    if (!shape || shape->size() != 4) return false;
    expected = AveragePoolFactor((*shape)[2], (*shape)[3]);
  } else if (IsOp(*before, "ReduceMean")) {
    const auto from = index.StaticShape(InputOf(*before, 0));
    const auto to = index.StaticShape(OutputOf(*before, 0));
    if (!from || !to) return false;
    int64_t all = 1, kept = 1;
    for (const int64_t dim : *from) all *= dim;
    for (const int64_t dim : *to) kept *= dim;
    if (kept <= 0 || all < kept) return false;
    expected = MeanFactor(all / kept);
  } else {
    return false;
  }
  return std::abs(expected - factor) <= 1e-6;
}

absl::StatusOr<bool> InstanceNorm(const NodeProto& node, Stripper& stripper) {
  NodeProto plain = graph::MakeNode("InstanceNormalization", node.name(), {}, {OutputOf(node, 0)});
  for (const std::string& input : node.input()) {
    GQ_ASSIGN_OR_RETURN(*plain.add_input(), stripper.Plain(input, node));
  }
  graph::SetAttribute("epsilon", graph::AttributeFloat(node, "epsilon", 1e-5f), &plain);
  stripper.Replaced(node);
  stripper.Emit(std::move(plain));
  return true;
}

absl::StatusOr<bool> RefuseNode(const NodeProto& node, Stripper& stripper) {
  return stripper.Refuse(node, "this product does not know the operator");
}

}  // namespace

absl::StatusOr<bool> UndoFactor(const NodeProto& node, Stripper& stripper) {
  if (node.input_size() != 2) return false;
  double factor = 0;
  const int scalar = ScalarInput(node, stripper, &factor);
  if (scalar < 0) return false;
  std::string real;
  if (UndoesFactor(node, 1 - scalar, factor, stripper, &real)) {
    stripper.Alias(OutputOf(node, 0), real);
    return true;
  }
  if (stripper.Find(InputOf(node, 1 - scalar)) != nullptr) return false;
  if (!IsHardwareFactor(node, 1 - scalar, factor, stripper)) return false;
  ++stripper.report().hardware_factors;
  stripper.Alias(OutputOf(node, 0), stripper.Aliased(InputOf(node, 1 - scalar)));
  return true;
}

Grid GridAt(const NodeProto& node, int scale, int zero_point) {
  Grid grid;
  grid.scale = InputName(node, scale);
  grid.zero_point = InputName(node, zero_point);
  grid.axis = AttributeInt(node, "axis", 1);
  grid.block_size = AttributeInt(node, "block_size", 0);
  return grid;
}

StripRule FindQdqRule(const NodeProto& node) {
  const std::string& op = node.op_type();
  const bool custom = node.domain() == "com.amd.quark" || node.domain() == "com.vai.quantize";
  if (custom && (op.ends_with("QuantizeDequantize") || op.ends_with("FixNeuron"))) return PassBy;
  if (IsDequantize(node)) return Dequantize;
  if (IsQuantize(node)) return Quantize;
  if (custom && op.ends_with("InstanceNormalization")) return InstanceNorm;
  if (custom) return RefuseNode;
  if (IsOp(node, "Cast")) return CastRule;
  return nullptr;
}

}  // namespace gq::quantize
