// Operators of com.microsoft whose weights are packed by other rules than (integer - zero) * scale
// over rows: 4-bit floats of bitsandbytes and the blob of MatMulFpQ4.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"
#include "common/quantize/dequantize/stripper.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::AttributeInt;
using graph::InputName;
using graph::TensorView;
using onnx::NodeProto;
using onnx::TensorProto;

std::span<const uint8_t> BytesOf(const TensorView& view) {
  return {reinterpret_cast<const uint8_t*>(view.bytes().data()), view.bytes().size()};
}

// Adds the float weights in place of the packed ones at `input`.
std::string AddWeights(const NodeProto& node, int input, const std::vector<int64_t>& dims,
                       const std::vector<float>& weights, Stripper& stripper) {
  DequantizeReport& report = stripper.report();
  ++report.constants;
  report.constant_bytes_after += static_cast<int64_t>(weights.size() * sizeof(float));
  report.constant_bytes_before +=
      stripper.source().DataBytes(*stripper.Constant(InputOf(node, input)));
  return stripper.AddConstant(StrCat(InputOf(node, input), "_float"),
                              TensorView::Of<float>(dims, weights));
}

absl::StatusOr<bool> EmitMatMul(const NodeProto& node, const std::string& weights,
                                Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const std::string data, stripper.Plain(InputOf(node, 0), node));
  stripper.Replaced(node);
  stripper.Emit(graph::MakeNode("MatMul", node.name(), {data, weights}, {OutputOf(node, 0)}));
  return true;
}

// The values of the 4-bit codes as shares of the largest of their block: FP4 (sign, two bits of
// exponent, one of mantissa, in the order of bitsandbytes) and NF4 (quantiles of the normal
// distribution).
constexpr std::array<float, 16> kFp4 = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr std::array<float, 16> kNf4 = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};

// B holds [N, K] flattened, the first of two values in the upper half of a byte.
absl::StatusOr<bool> MatMulBnb4(const NodeProto& node, Stripper& stripper) {
  const int64_t rows = AttributeInt(node, "K", 0);
  const int64_t columns = AttributeInt(node, "N", 0);
  const int64_t block = AttributeInt(node, "block_size", 0);
  const int64_t type = AttributeInt(node, "quant_type", -1);
  for (const int64_t size : {rows, columns, block}) {
    if (size < 1 || size > kMostPackedExtent) {
      return stripper.Refuse(node, "its attributes are out of range");
    }
  }
  if (type != 0 && type != 1) return stripper.Refuse(node, "its quant_type is neither 0 nor 1");
  const std::array<float, 16>& table = type == 0 ? kFp4 : kNf4;
  GQ_ASSIGN_OR_RETURN(const TensorView packed, stripper.ConstantView(node, 1));
  GQ_ASSIGN_OR_RETURN(const TensorView largest_view, stripper.ConstantView(node, 2));
  GQ_ASSIGN_OR_RETURN(const std::vector<float> largest, largest_view.ToFloats());
  const std::span<const uint8_t> bytes = BytesOf(packed);
  const int64_t count = rows * columns;
  if (static_cast<int64_t>(bytes.size()) != (count + 1) / 2 ||
      static_cast<int64_t>(largest.size()) != (count + block - 1) / block) {
    return stripper.Refuse(node, "its weights or scales have another size than K and N say");
  }
  if (AttributeInt(node, "transB", 1) == 0) {
    return stripper.Refuse(node, "its weights are used as they lie (transB = 0)");
  }
  std::vector<float> weights(count);
  for (int64_t i = 0; i < count; ++i) {
    const int code = i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
    const float value = table[code] * largest[i / block];
    weights[i % rows * columns + i / rows] = value;
  }
  return EmitMatMul(node, AddWeights(node, 1, {rows, columns}, weights, stripper), stripper);
}

// Blocks of one column after another: float scale, for kind 1 a byte of zero point, then the codes;
// of each 32 the first sixteen lie in the lower halves of the bytes.
struct FpQ4Layout {
  int64_t block;
  bool zero_point;
};

absl::StatusOr<bool> MatMulFpQ4(const NodeProto& node, Stripper& stripper) {
  constexpr int64_t kUnit = 32;
  FpQ4Layout layout;
  switch (AttributeInt(node, "blk_quant_type", 1)) {
    case 0:
      layout = {32, false};
      break;
    case 1:
      layout = {32, true};
      break;
    case 2:
      layout = {64, false};
      break;
    case 4:
      layout = {128, false};
      break;
    default:
      return stripper.Refuse(node, "its blk_quant_type is not 0, 1, 2 or 4");
  }
  GQ_ASSIGN_OR_RETURN(const TensorView packed, stripper.ConstantView(node, 1));
  GQ_ASSIGN_OR_RETURN(const TensorView shape_view, stripper.ConstantView(node, 2));
  GQ_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, shape_view.ToInts());
  const bool fits = shape.size() == 2 && std::all_of(shape.begin(), shape.end(), [](int64_t dim) {
                      return dim >= 1 && dim <= kMostPackedExtent;
                    });
  if (!fits) return stripper.Refuse(node, "its B_shape is out of range");
  const int64_t rows = shape[0];
  const int64_t columns = shape[1];
  const int64_t blocks = (rows + layout.block - 1) / layout.block;
  const int64_t head = static_cast<int64_t>(sizeof(float)) + (layout.zero_point ? 1 : 0);
  const int64_t block_bytes = head + layout.block / 2;
  const std::span<const uint8_t> bytes = BytesOf(packed);
  if (static_cast<int64_t>(bytes.size()) != columns * blocks * block_bytes) {
    return stripper.Refuse(node, "its weights have another size than B_shape says");
  }
  std::vector<float> weights(rows * columns);
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < rows; ++k) {
      const auto own = bytes.subspan((n * blocks + k / layout.block) * block_bytes, block_bytes);
      float scale;
      std::memcpy(&scale, own.data(), sizeof scale);
      const int zero = layout.zero_point ? own[sizeof scale] : 8;
      const int64_t unit = k % layout.block / kUnit;
      const int64_t within = k % kUnit;
      const uint8_t byte = own[head + unit * kUnit / 2 + within % (kUnit / 2)];
      const int code = within < kUnit / 2 ? byte & 15 : byte >> 4;
      weights[k * columns + n] = static_cast<float>(code - zero) * scale;
    }
  }
  return EmitMatMul(node, AddWeights(node, 1, {rows, columns}, weights, stripper), stripper);
}

}  // namespace

int PackedInteger(std::span<const uint8_t> bytes, int64_t at, int64_t bits) {
  const int64_t bit = at * bits;
  return (bytes[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
}

StripRule FindPackedRule(const NodeProto& node) {
  if (node.domain() != "com.microsoft") return nullptr;
  const std::string& op = node.op_type();
  if (op == "MatMulBnb4") return MatMulBnb4;
  return op == "MatMulFpQ4" ? MatMulFpQ4 : nullptr;
}

}  // namespace gq::quantize
