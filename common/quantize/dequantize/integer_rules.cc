// Dynamic quantization: scales found at run time, products of integers, and what undoes them.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::InputName;
using graph::TensorView;
using onnx::NodeProto;
using onnx::TensorProto;

// Outputs: integers, scale, zero point.
absl::StatusOr<bool> DynamicQuantize(const NodeProto& node, Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const std::string real, stripper.Plain(InputOf(node, 0), node));
  stripper.Removed(node);
  const Grid grid = {.scale = OutputOf(node, 1),
                     .zero_point = std::string(graph::OutputName(node, 2))};
  stripper.Define(OutputOf(node, 0), {.real = real, .grid = grid});
  Meaning scale;
  scale.kind = Meaning::Kind::kFactor;
  scale.factors = {OutputOf(node, 1)};
  stripper.Define(OutputOf(node, 1), scale);
  return true;
}

// An operand of MatMulInteger or ConvInteger: its float tensor, and what it was divided by.
struct Factor {
  std::string real;
  double divisor = 1;
  std::vector<std::string> factors;
};

absl::StatusOr<Factor> OperandOf(const NodeProto& node, int value, int zero_point, int axis,
                                 Stripper& stripper) {
  const std::string name(InputName(node, value));
  const std::string zero(InputName(node, zero_point));
  const Meaning* meaning = stripper.Find(name);
  if (meaning != nullptr && meaning->kind == Meaning::Kind::kQuantized) {
    const Grid own = meaning->grid;
    const Grid read = {.scale = own.scale, .zero_point = zero};
    GQ_ASSIGN_OR_RETURN(std::string real, stripper.Real(name, read, node));
    Factor factor{.real = std::move(real)};
    if (stripper.Constant(own.scale) == nullptr) {
      factor.factors = {own.scale};
      return factor;
    }
    GQ_ASSIGN_OR_RETURN(const std::vector<float> scale, stripper.ConstantFloats(own.scale, node));
    if (scale.size() != 1) return stripper.Refuse(node, "its data has a scale for each channel");
    factor.divisor = scale[0];
    return factor;
  }
  if (stripper.Constant(name) == nullptr) {
    return stripper.Refuse(node, StrCat("'", name, "' holds integers of unknown origin"));
  }
  // Weights are integers less their zero point here; the scale comes with the Mul behind.
  GridValues values;
  values.scale = {1};
  values.axis = axis;
  if (!zero.empty()) {
    GQ_ASSIGN_OR_RETURN(const std::vector<float> zeros, stripper.ConstantFloats(zero, node));
    values.zero_point.assign(zeros.begin(), zeros.end());
    if (zeros.size() > 1) values.scale.assign(zeros.size(), 1);
  }
  GQ_ASSIGN_OR_RETURN(std::string real,
                      stripper.RealConstant(name, values, StrCat(kCentered, "|", zero, "|", axis)));
  return Factor{.real = std::move(real)};
}

absl::StatusOr<bool> IntegerProduct(const NodeProto& node, Stripper& stripper) {
  const bool conv = node.op_type() == "ConvInteger";
  GQ_ASSIGN_OR_RETURN(const Factor a, OperandOf(node, 0, 2, -2, stripper));
  GQ_ASSIGN_OR_RETURN(const Factor b, OperandOf(node, 1, 3, conv ? 0 : -1, stripper));
  std::string name = node.name();
  if (name.ends_with("_quant")) {
    name = stripper.UniqueNode(std::string_view(name).substr(0, name.size() - 6));
  }
  NodeProto plain = graph::MakeNode(conv ? "Conv" : "MatMul", name, {a.real, b.real}, {});
  *plain.mutable_attribute() = node.attribute();
  Meaning sum;
  sum.kind = Meaning::Kind::kSum;
  sum.real = stripper.Unique(StrCat(OutputOf(node, 0), "_real"));
  sum.divisor = a.divisor * b.divisor;
  sum.factors = a.factors;
  sum.factors.insert(sum.factors.end(), b.factors.begin(), b.factors.end());
  plain.add_output(sum.real);
  stripper.Replaced(node);
  stripper.Emit(std::move(plain));
  stripper.Define(OutputOf(node, 0), std::move(sum));
  return true;
}

// Puts `factor` into the constant weights of the product that makes `real`; false when it has to be
// a Mul of its own.
absl::StatusOr<bool> IntoWeights(const std::string& real, const TensorView& factor,
                                 Stripper& stripper) {
  NodeProto* product = stripper.MutableMade(real);
  if (product == nullptr) return false;
  const bool conv = product->op_type() == "Conv";
  if ((!conv && product->op_type() != "MatMul") || product->input_size() != 2) return false;
  const auto weights = stripper.NewConstant(product->input(1));
  if (!weights) return false;
  const std::vector<int64_t>& dims = weights->dims();
  const int64_t channels = conv ? dims[0] : dims.back();
  // One factor, or one for each channel: along the last axis of a MatMul, axis 1 of a Conv.
  bool fits = factor.size() == 1;
  if (factor.size() == channels && !fits) {
    const auto& shape = factor.dims();
    fits = conv ? shape.size() == dims.size() && shape[1] == channels
                : !shape.empty() && shape.back() == channels;
    if (conv && shape.size() + 1 == dims.size()) fits = shape[0] == channels;
  }
  if (!fits) return false;
  const auto values = weights->As<float>();
  std::vector<float> scaled(values.begin(), values.end());
  const int64_t inner =
      conv ? static_cast<int64_t>(scaled.size()) / std::max<int64_t>(channels, 1) : 1;
  for (size_t i = 0; i < scaled.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / inner % channels;
    scaled[i] *= static_cast<float>(factor.At(factor.size() == 1 ? 0 : channel));
  }
  std::string_view name = product->input(1);
  if (name.ends_with(kCentered)) name.remove_suffix(kCentered.size());
  product->set_input(1, stripper.AddConstant(name, TensorView::Of<float>(dims, scaled)));
  return true;
}

// The product of constant factors as one tensor over `divisor`; nullopt when one is computed.
absl::StatusOr<std::optional<TensorView>> Combined(const std::vector<std::string>& names,
                                                   double divisor, Stripper& stripper) {
  std::vector<int64_t> dims;
  std::vector<float> values = {static_cast<float>(1 / divisor)};
  for (const std::string& name : names) {
    const TensorProto* tensor = stripper.Constant(name);
    if (tensor == nullptr) return std::nullopt;
    GQ_ASSIGN_OR_RETURN(const TensorView view, stripper.source().Data(*tensor));
    if (view.size() != 1 && values.size() != 1 && view.dims() != dims) return std::nullopt;
    if (view.size() != 1 && values.size() == 1) {
      values.assign(view.size(), values[0]);
      dims = view.dims();
    }
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= static_cast<float>(view.At(view.size() == 1 ? 0 : static_cast<int64_t>(i)));
    }
  }
  return TensorView::Of<float>(dims, values);
}

// Mul of a scale found at run time with another scale, or of sums with scales.
absl::StatusOr<bool> Multiply(const NodeProto& node, Stripper& stripper) {
  if (node.input_size() != 2) return false;
  const Meaning* a = stripper.Find(InputOf(node, 0));
  const Meaning* b = stripper.Find(InputOf(node, 1));
  const auto is = [](const Meaning* meaning, Meaning::Kind kind) {
    return meaning != nullptr && meaning->kind == kind;
  };
  using Kind = Meaning::Kind;
  const bool sum = is(a, Kind::kSum) || is(b, Kind::kSum);
  if (!sum && !is(a, Kind::kFactor) && !is(b, Kind::kFactor)) return UndoFactor(node, stripper);
  if (is(a, Kind::kSum) && is(b, Kind::kSum)) return false;
  Meaning scale;
  scale.kind = Kind::kFactor;
  for (int i = 0; i < 2; ++i) {
    const Meaning* meaning = i == 0 ? a : b;
    if (is(meaning, Kind::kSum)) continue;
    if (is(meaning, Kind::kFactor)) {
      scale.factors.insert(scale.factors.end(), meaning->factors.begin(), meaning->factors.end());
      scale.constants.insert(scale.constants.end(), meaning->constants.begin(),
                             meaning->constants.end());
    } else if (meaning == nullptr) {
      scale.constants.push_back(stripper.Aliased(InputOf(node, i)));
    } else {
      return false;
    }
  }
  if (!sum) {
    stripper.Define(OutputOf(node, 0), std::move(scale));
    return true;
  }
  const Meaning& sums = is(a, Kind::kSum) ? *a : *b;
  for (const std::string& factor : sums.factors) {
    const auto found = std::find(scale.factors.begin(), scale.factors.end(), factor);
    if (found == scale.factors.end()) {
      return stripper.Refuse(node, "the scale that was found at run time is not multiplied back");
    }
    scale.factors.erase(found);
  }
  if (!scale.factors.empty()) return false;
  const std::string real = sums.real;
  GQ_ASSIGN_OR_RETURN(const auto factor, Combined(scale.constants, sums.divisor, stripper));
  if (!factor) {
    std::string product = real;
    if (sums.divisor != 1)
      scale.constants.push_back(
          stripper.AddScalar(StrCat(real, "_divisor"), static_cast<float>(1 / sums.divisor)));
    for (const std::string& constant : scale.constants) {
      product = stripper.Compute("Mul", {product, constant}, StrCat(real, "_scaled"));
    }
    stripper.Alias(OutputOf(node, 0), product);
    return true;
  }
  const auto all = factor->As<float>();
  const bool one =
      std::all_of(all.begin(), all.end(), [](float f) { return std::abs(f - 1) < 1e-6f; });
  if (!one) {
    GQ_ASSIGN_OR_RETURN(const bool folded, IntoWeights(real, *factor, stripper));
    if (!folded) {
      const std::string constant = stripper.AddConstant(StrCat(real, "_scale"), *factor);
      stripper.Alias(OutputOf(node, 0),
                     stripper.Compute("Mul", {real, constant}, StrCat(real, "_scaled")));
      return true;
    }
  }
  stripper.Alias(OutputOf(node, 0), real);
  return true;
}

// A bias behind a product, where there is one.
absl::Status EmitProduct(const NodeProto& node, const std::string& a, const std::string& b,
                         int bias_input, Stripper& stripper) {
  const std::string bias(InputName(node, bias_input));
  const std::string product =
      bias.empty() ? OutputOf(node, 0) : stripper.Unique(StrCat(OutputOf(node, 0), "_product"));
  stripper.Replaced(node);
  stripper.Emit(graph::MakeNode("MatMul", node.name(), {a, b}, {product}));
  if (bias.empty()) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const std::string plain, stripper.Plain(bias, node));
  stripper.Emit(graph::MakeNode("Add", stripper.UniqueNode(StrCat(node.name(), "_bias")),
                                {product, plain}, {OutputOf(node, 0)}));
  return absl::OkStatus();
}

Grid WeightGrid(const NodeProto& node, int scale, int zero_point) {
  Grid grid = GridAt(node, scale, zero_point);
  grid.axis = -1;
  grid.block_size = 0;
  return grid;
}

// A, B, scale of A, scale of B, zero point of A, zero point of B, bias.
absl::StatusOr<bool> MatMulIntegerToFloat(const NodeProto& node, Stripper& stripper) {
  Grid grid = GridAt(node, 2, 4);
  const Meaning* scale = stripper.Find(grid.scale);
  if (scale != nullptr && scale->factors.size() == 1) grid.scale = scale->factors[0];
  GQ_ASSIGN_OR_RETURN(const std::string a, stripper.Real(InputOf(node, 0), grid, node));
  GQ_ASSIGN_OR_RETURN(const std::string b,
                      stripper.Real(InputOf(node, 1), WeightGrid(node, 3, 5), node));
  GQ_RETURN_IF_ERROR(EmitProduct(node, a, b, 6, stripper));
  return true;
}

// A (float), B, scale of B, zero point of B, bias.
absl::StatusOr<bool> DynamicMatMul(const NodeProto& node, Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const std::string a, stripper.Plain(InputOf(node, 0), node));
  GQ_ASSIGN_OR_RETURN(const std::string b,
                      stripper.Real(InputOf(node, 1), WeightGrid(node, 2, 3), node));
  GQ_RETURN_IF_ERROR(EmitProduct(node, a, b, 4, stripper));
  return true;
}

}  // namespace

StripRule FindIntegerRule(const NodeProto& node) {
  const std::string& op = node.op_type();
  if (op == "DynamicQuantizeLinear") return DynamicQuantize;
  if (op == "MatMulInteger" || op == "ConvInteger") return IntegerProduct;
  if (op == "MatMulIntegerToFloat") return MatMulIntegerToFloat;
  if (op == "DynamicQuantizeMatMul") return DynamicMatMul;
  if (graph::IsOp(node, "Mul")) return Multiply;
  return nullptr;
}

}  // namespace gq::quantize
