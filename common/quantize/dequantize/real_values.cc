// What integers of the quantized graph are in the float one: constants, operands, and integers that
// ordinary operators read.
#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {

using base::StrCat;
using graph::TensorView;
using onnx::NodeProto;
using onnx::TensorProto;

bool Stripper::IsConstantGrid(const Grid& grid) const {
  return Constant(grid.scale) != nullptr &&
         (grid.zero_point.empty() || Constant(grid.zero_point) != nullptr);
}

int32_t Stripper::TypeOf(const Grid& grid) const {
  const TensorProto* tensor = Constant(grid.zero_point);
  return tensor == nullptr ? static_cast<int32_t>(TensorProto::UINT8) : tensor->data_type();
}

absl::StatusOr<GridValues> Stripper::Values(const Grid& grid, const NodeProto& reader) const {
  GridValues values;
  values.axis = grid.axis;
  values.block_size = grid.block_size;
  GQ_ASSIGN_OR_RETURN(values.scale, ConstantFloats(grid.scale, reader));
  values.scale_dims = graph::Dims(*Constant(grid.scale));
  if (!grid.zero_point.empty()) {
    GQ_ASSIGN_OR_RETURN(const std::vector<float> zeros, ConstantFloats(grid.zero_point, reader));
    values.zero_point.assign(zeros.begin(), zeros.end());
    const bool all_zero = std::all_of(zeros.begin(), zeros.end(), [](float z) { return z == 0; });
    if (all_zero) values.zero_point.clear();
  }
  return values;
}

bool Stripper::SameGrid(const Grid& a, const Grid& b) const {
  if (a.scale == b.scale && a.zero_point == b.zero_point) return true;
  NodeProto nobody;
  const auto left = Values(a, nobody);
  const auto right = Values(b, nobody);
  if (!left.ok() || !right.ok() || left->scale != right->scale) return false;
  if (left->scale.size() > 1 && left->axis != right->axis) return false;
  const auto zero = [](const GridValues& values, size_t i) {
    if (values.zero_point.empty()) return 0.0;
    return values.zero_point[values.zero_point.size() == 1 ? 0 : i];
  };
  for (size_t i = 0; i < left->scale.size(); ++i) {
    if (zero(*left, i) != zero(*right, i)) return false;
  }
  return true;
}

absl::StatusOr<std::string> Stripper::RealConstant(const std::string& name,
                                                   const GridValues& values,
                                                   const std::string& key) {
  std::string& real = constants_[StrCat(name, "|", key)];
  if (!real.empty()) return real;
  const TensorProto* tensor = Constant(name);
  if (tensor == nullptr) return base::MakeError(base::Reason::kInternal, "not a constant");
  GQ_ASSIGN_OR_RETURN(const TensorView view, source_.Data(*tensor));
  GQ_ASSIGN_OR_RETURN(const std::vector<float> floats, RealValues(view, values, name));
  std::string_view wanted = name;
  for (const std::string_view suffix : {"_quantized", "_Quantized", "_q"}) {
    if (!wanted.ends_with(suffix)) continue;
    wanted.remove_suffix(suffix.size());
    break;
  }
  const bool centered = key.starts_with(kCentered);
  const std::string plain = StrCat(wanted, centered                       ? kCentered
                                           : wanted.size() == name.size() ? "_float"
                                                                          : "");
  real = AddConstant(plain, TensorView::Of<float>(view.dims(), floats));
  ++report_->constants;
  report_->constant_bytes_before += static_cast<int64_t>(view.bytes().size());
  report_->constant_bytes_after += static_cast<int64_t>(floats.size() * sizeof(float));
  return real;
}

absl::StatusOr<std::string> Stripper::Real(const std::string& name, const Grid& grid,
                                           const NodeProto& reader) {
  if (name.empty()) return std::string();
  if (const Meaning* meaning = Find(name)) {
    if (meaning->kind != Meaning::Kind::kQuantized) {
      return Refuse(reader, StrCat("'", name, "' holds sums of integers"));
    }
    if (SameGrid(meaning->grid, grid)) return meaning->real;
    return Rescaled(*meaning, grid, reader);
  }
  if (Constant(name) != nullptr && IsConstantGrid(grid)) {
    GQ_ASSIGN_OR_RETURN(const GridValues values, Values(grid, reader));
    return RealConstant(
        name, values,
        StrCat(grid.scale, "|", grid.zero_point, "|", grid.axis, "|", grid.block_size));
  }
  return FromIntegers(name, grid, reader);
}

// The same integers read with other parameters: real * s2 / s1 + (z1 - z2) * s2.
absl::StatusOr<std::string> Stripper::Rescaled(const Meaning& meaning, const Grid& grid,
                                               const NodeProto& reader) {
  if (!IsConstantGrid(meaning.grid) || !IsConstantGrid(grid)) {
    return Refuse(reader,
                  "it reads integers with other parameters than they were written with, "
                  "and these are computed");
  }
  GQ_ASSIGN_OR_RETURN(const GridValues from, Values(meaning.grid, reader));
  GQ_ASSIGN_OR_RETURN(const GridValues to, Values(grid, reader));
  if (from.scale.size() != 1 || to.scale.size() != 1) {
    return Refuse(reader,
                  "it reads integers with other parameters for each channel than they were "
                  "written with");
  }
  const double zero_from = from.zero_point.empty() ? 0 : from.zero_point[0];
  const double zero_to = to.zero_point.empty() ? 0 : to.zero_point[0];
  const double factor = static_cast<double>(to.scale[0]) / from.scale[0];
  const double shift = (zero_from - zero_to) * to.scale[0];
  std::string real = meaning.real;
  ++report_->rescales;
  if (factor != 1) {
    const std::string scalar = AddScalar(StrCat(real, "_factor"), static_cast<float>(factor));
    real = Compute("Mul", {real, scalar}, StrCat(meaning.real, "_rescaled"));
  }
  if (shift != 0) {
    const std::string scalar = AddScalar(StrCat(meaning.real, "_shift"), static_cast<float>(shift));
    real = Compute("Add", {real, scalar}, StrCat(meaning.real, "_shifted"));
  }
  return real;
}

// A parameter as a float tensor that broadcasts against `tensor`.
absl::StatusOr<std::string> Stripper::Spread(const std::string& parameter, const Grid& grid,
                                             const std::string& tensor, const NodeProto& reader) {
  const TensorProto* constant = Constant(parameter);
  const auto shape = scope_->index.Shape(tensor);
  if (constant == nullptr) {
    GQ_ASSIGN_OR_RETURN(const std::string plain, Plain(parameter, reader));
    return Cast(plain, TensorProto::FLOAT, StrCat(parameter, "_float"));
  }
  GQ_ASSIGN_OR_RETURN(const std::vector<float> values, ConstantFloats(parameter, reader));
  if (values.size() == 1) return AddScalar(StrCat(parameter, "_float"), values[0]);
  if (!shape || grid.block_size > 0) {
    return Refuse(reader, StrCat("the rank of '", tensor, "' is not known"));
  }
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t axis = grid.axis < 0 ? grid.axis + rank : grid.axis;
  if (axis < 0 || axis >= rank) return Refuse(reader, "its axis lies outside of the tensor");
  std::vector<int64_t> dims(rank, 1);
  dims[axis] = static_cast<int64_t>(values.size());
  return AddConstant(StrCat(parameter, "_float"), TensorView::Of<float>(dims, values));
}

// Integers that nobody quantized in this graph: (x - zero point) * scale, computed.
absl::StatusOr<std::string> Stripper::FromIntegers(const std::string& name, const Grid& grid,
                                                   const NodeProto& reader) {
  GQ_ASSIGN_OR_RETURN(const std::string plain, Plain(name, reader));
  std::string real = Cast(plain, TensorProto::FLOAT, StrCat(name, "_float"));
  if (!grid.zero_point.empty()) {
    GQ_ASSIGN_OR_RETURN(const std::string zero, Spread(grid.zero_point, grid, name, reader));
    real = Compute("Sub", {real, zero}, StrCat(name, "_centered"));
  }
  GQ_ASSIGN_OR_RETURN(const std::string scale, Spread(grid.scale, grid, name, reader));
  return Compute("Mul", {real, scale}, StrCat(name, "_real"));
}

absl::StatusOr<std::string> Stripper::Plain(const std::string& name, const NodeProto& reader) {
  const Meaning* meaning = Find(name);
  if (meaning == nullptr) return Aliased(name);
  if (meaning->kind == Meaning::Kind::kQuantized) return Integers(name, *meaning, reader);
  if (meaning->kind == Meaning::Kind::kSum && meaning->factors.empty()) {
    std::string sum = meaning->real;
    if (meaning->divisor != 1) {
      const auto factor = static_cast<float>(1 / meaning->divisor);
      sum = Compute("Mul", {sum, AddScalar(StrCat(name, "_factor"), factor)}, StrCat(name, "_sum"));
    }
    sum = Compute("Round", {sum}, StrCat(name, "_rounded"));
    return Cast(sum, TensorProto::INT32, StrCat(name, "_integers"));
  }
  return Refuse(reader, StrCat("it reads '", name,
                               "', integers whose scale is found at run time, in an unknown way"));
}

// The integers themselves, from the float tensor: round, shift, clip, cast.
absl::StatusOr<std::string> Stripper::Integers(const std::string& name, const Meaning& meaning,
                                               const NodeProto& reader) {
  if (const auto found = scope_->integers.find(name); found != scope_->integers.end()) {
    return found->second;
  }
  if (!IsConstantGrid(meaning.grid)) {
    return Refuse(reader,
                  StrCat("it reads '", name,
                         "', integers whose scale is found at run time, in an unknown way"));
  }
  const int32_t type = TypeOf(meaning.grid);
  const IntegerLimits limits = LimitsOf(type);
  GQ_ASSIGN_OR_RETURN(const std::string scale,
                      Spread(meaning.grid.scale, meaning.grid, name, reader));
  std::string value = Compute("Div", {meaning.real, scale}, StrCat(name, "_scaled"));
  value = Compute("Round", {value}, StrCat(name, "_rounded"));
  if (!meaning.grid.zero_point.empty()) {
    GQ_ASSIGN_OR_RETURN(const std::string zero,
                        Spread(meaning.grid.zero_point, meaning.grid, name, reader));
    value = Compute("Add", {value, zero}, StrCat(name, "_shifted"));
  }
  const std::string low = AddScalar(StrCat(name, "_low"), static_cast<float>(limits.low));
  const std::string high = AddScalar(StrCat(name, "_high"), static_cast<float>(limits.high));
  value = Compute("Max", {value, low}, StrCat(name, "_above"));
  value = Compute("Min", {value, high}, StrCat(name, "_below"));
  const std::string integers = Cast(value, type, StrCat(name, "_integers"));
  scope_->integers[name] = integers;
  return integers;
}

}  // namespace gq::quantize
