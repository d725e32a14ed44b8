// Fused quantized operators of com.microsoft: weights in packed blocks, attention, LSTM, embedding.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
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

constexpr std::string_view kMicrosoft = "com.microsoft";

// Float weights [K, N] of MatMulNBits: B is [N, blocks, block bytes], scales [N, blocks].
absl::StatusOr<std::vector<float>> UnpackedWeights(const NodeProto& node, int64_t rows,
                                                   int64_t columns, Stripper& stripper) {
  const int64_t bits = AttributeInt(node, "bits", 4);
  const int64_t block = AttributeInt(node, "block_size", 0);
  const std::array<int64_t, 3> sizes = {rows, columns, block};
  const bool in_range = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) {
    return size >= 1 && size <= kMostPackedExtent;
  });
  if ((bits != 2 && bits != 4 && bits != 8) || !in_range) {
    return stripper.Refuse(node, "its attributes are out of range");
  }
  const int64_t blocks = (rows + block - 1) / block;
  const int64_t block_bytes = (block * bits + 7) / 8;
  GQ_ASSIGN_OR_RETURN(const TensorView packed, stripper.ConstantView(node, 1));
  GQ_ASSIGN_OR_RETURN(const TensorView scale_view, stripper.ConstantView(node, 2));
  GQ_ASSIGN_OR_RETURN(const std::vector<float> scales, scale_view.ToFloats());
  const auto bytes =
      std::span(reinterpret_cast<const uint8_t*>(packed.bytes().data()), packed.bytes().size());
  if (static_cast<int64_t>(bytes.size()) != columns * blocks * block_bytes ||
      static_cast<int64_t>(scales.size()) != columns * blocks) {
    return stripper.Refuse(node, "its weights or scales have another size than K and N say");
  }
  std::vector<float> zeros(columns * blocks, static_cast<float>(1 << (bits - 1)));
  if (!InputName(node, 3).empty()) {
    GQ_ASSIGN_OR_RETURN(const TensorView view, stripper.ConstantView(node, 3));
    const int64_t row_bytes = (blocks * bits + 7) / 8;
    if (view.dtype() != TensorProto::UINT8) {
      GQ_ASSIGN_OR_RETURN(zeros, view.ToFloats());
      if (static_cast<int64_t>(zeros.size()) != columns * blocks) {
        return stripper.Refuse(node, "its zero points have another size than its scales");
      }
    } else if (view.size() != columns * row_bytes) {
      return stripper.Refuse(node, "its zero points have another size than its scales");
    } else {
      for (int64_t n = 0; n < columns; ++n) {
        for (int64_t b = 0; b < blocks; ++b) {
          zeros[n * blocks + b] = static_cast<float>(
              PackedInteger(view.As<uint8_t>().subspan(n * row_bytes, row_bytes), b, bits));
        }
      }
    }
  }
  std::vector<int64_t> groups(rows);  // block of each row
  for (int64_t k = 0; k < rows; ++k) groups[k] = k / block;
  if (!InputName(node, 4).empty()) {
    GQ_ASSIGN_OR_RETURN(const TensorView view, stripper.ConstantView(node, 4));
    GQ_ASSIGN_OR_RETURN(groups, view.ToInts());
    const bool fits = static_cast<int64_t>(groups.size()) >= rows &&
                      std::all_of(groups.begin(), groups.end(),
                                  [&](int64_t group) { return group >= 0 && group < blocks; });
    if (!fits) return stripper.Refuse(node, "its group indices are out of range");
  }
  std::vector<float> weights(rows * columns);
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < rows; ++k) {
      const auto own = bytes.subspan((n * blocks + k / block) * block_bytes, block_bytes);
      const int64_t parameter = n * blocks + groups[k];
      weights[k * columns + n] =
          (static_cast<float>(PackedInteger(own, k % block, bits)) - zeros[parameter]) *
          scales[parameter];
    }
  }
  return weights;
}

absl::StatusOr<bool> MatMulBits(const NodeProto& node, Stripper& stripper) {
  const int64_t rows = AttributeInt(node, "K", 0);
  const int64_t columns = AttributeInt(node, "N", 0);
  GQ_ASSIGN_OR_RETURN(const std::vector<float> weights,
                      UnpackedWeights(node, rows, columns, stripper));
  const std::string constant = stripper.AddConstant(
      StrCat(InputOf(node, 1), "_float"), TensorView::Of<float>({rows, columns}, weights));
  DequantizeReport& report = stripper.report();
  ++report.constants;
  report.constant_bytes_after += static_cast<int64_t>(weights.size() * sizeof(float));
  report.constant_bytes_before += stripper.source().DataBytes(*stripper.Constant(InputOf(node, 1)));
  GQ_ASSIGN_OR_RETURN(const std::string data, stripper.Plain(InputOf(node, 0), node));
  const std::string bias(InputName(node, 5));
  const std::string product =
      bias.empty() ? OutputOf(node, 0) : stripper.Unique(StrCat(OutputOf(node, 0), "_product"));
  stripper.Replaced(node);
  stripper.Emit(graph::MakeNode("MatMul", node.name(), {data, constant}, {product}));
  if (bias.empty()) return true;
  stripper.Emit(graph::MakeNode("Add", stripper.UniqueNode(StrCat(node.name(), "_bias")),
                                {product, stripper.Aliased(bias)}, {OutputOf(node, 0)}));
  return true;
}

// (data, indices, scales, zero points): a table of rows in blocks.
absl::StatusOr<bool> GatherBlocks(const NodeProto& node, Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const TensorView view, stripper.ConstantView(node, 0));
  if (view.dtype() == TensorProto::UINT8) {
    return stripper.Refuse(node, "its table is packed into bytes; int4 and uint4 are known");
  }
  Grid grid = GridAt(node, 2, 3);
  grid.axis = AttributeInt(node, "quantize_axis", 1);
  grid.block_size = AttributeInt(node, "block_size", 128);
  GQ_ASSIGN_OR_RETURN(const std::string table, stripper.Real(InputOf(node, 0), grid, node));
  GQ_ASSIGN_OR_RETURN(const std::string indices, stripper.Plain(InputOf(node, 1), node));
  NodeProto plain = graph::MakeNode("Gather", node.name(), {table, indices}, {OutputOf(node, 0)});
  graph::SetAttribute("axis", AttributeInt(node, "gather_axis", 0), &plain);
  stripper.Replaced(node);
  stripper.Emit(std::move(plain));
  return true;
}

// Renames the operator, drops the inputs of parameters.
absl::Status EmitFused(const NodeProto& node, std::string_view op_type, std::string_view domain,
                       std::vector<std::string> inputs, Stripper& stripper) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  std::vector<std::string> outputs(node.output().begin(), node.output().end());
  NodeProto plain = graph::MakeNode(op_type, node.name(), inputs, outputs, domain);
  *plain.mutable_attribute() = node.attribute();
  stripper.Replaced(node);
  stripper.Emit(std::move(plain));
  return absl::OkStatus();
}

// input, weight, bias, scale, scale, mask, zero point, zero point, past.
absl::StatusOr<bool> Attention(const NodeProto& node, Stripper& stripper) {
  Grid data = GridAt(node, 3, 6);
  if (const Meaning* scale = stripper.Find(data.scale); scale != nullptr) {
    if (scale->factors.size() == 1 && scale->constants.empty()) data.scale = scale->factors[0];
  }
  Grid weight = GridAt(node, 4, 7);
  data.axis = weight.axis = -1;
  GQ_ASSIGN_OR_RETURN(std::string x, stripper.Real(InputOf(node, 0), data, node));
  GQ_ASSIGN_OR_RETURN(std::string w, stripper.Real(InputOf(node, 1), weight, node));
  std::vector<std::string> inputs = {std::move(x), std::move(w)};
  for (const int other : {2, 5, 8}) {
    inputs.push_back(stripper.Aliased(std::string(InputName(node, other))));
  }
  GQ_RETURN_IF_ERROR(EmitFused(node, "Attention", kMicrosoft, std::move(inputs), stripper));
  return true;
}

// Weights of DynamicQuantizeLSTM are [directions, in, 4 * hidden]; LSTM wants the last two turned.
absl::StatusOr<std::string> TurnedWeights(const NodeProto& node, int input, int scale,
                                          int zero_point, Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(const TensorView view, stripper.ConstantView(node, input));
  if (view.dims().size() != 3) return stripper.Refuse(node, "its weights do not have rank 3");
  const int64_t directions = view.dims()[0], rows = view.dims()[1], columns = view.dims()[2];
  GQ_ASSIGN_OR_RETURN(const std::vector<float> scales,
                      stripper.ConstantFloats(InputName(node, scale), node));
  std::vector<float> zeros = {0};
  if (!InputName(node, zero_point).empty()) {
    GQ_ASSIGN_OR_RETURN(zeros, stripper.ConstantFloats(InputName(node, zero_point), node));
  }
  const auto parameter = [&](const std::vector<float>& values, int64_t direction, int64_t column) {
    const auto count = static_cast<int64_t>(values.size());
    if (count == 1) return values[0];
    return values[count == directions ? direction : direction * columns + column];
  };
  const auto fits = [&](const std::vector<float>& values) {
    const auto count = static_cast<int64_t>(values.size());
    return count == 1 || count == directions || count == directions * columns;
  };
  if (!fits(scales) || !fits(zeros)) {
    return stripper.Refuse(node, "its scales have another size than its weights");
  }
  GQ_ASSIGN_OR_RETURN(const std::vector<float> integers, view.ToFloats());
  std::vector<float> weights(integers.size());
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        weights[(d * columns + c) * rows + r] =
            (integers[(d * rows + r) * columns + c] - parameter(zeros, d, c)) *
            parameter(scales, d, c);
      }
    }
  }
  ++stripper.report().constants;
  return stripper.AddConstant(StrCat(InputOf(node, input), "_float"),
                              TensorView::Of<float>({directions, columns, rows}, weights));
}

absl::StatusOr<bool> Lstm(const NodeProto& node, Stripper& stripper) {
  GQ_ASSIGN_OR_RETURN(std::string x, stripper.Plain(InputOf(node, 0), node));
  GQ_ASSIGN_OR_RETURN(std::string w, TurnedWeights(node, 1, 8, 9, stripper));
  GQ_ASSIGN_OR_RETURN(std::string r, TurnedWeights(node, 2, 10, 11, stripper));
  std::vector<std::string> inputs = {std::move(x), std::move(w), std::move(r)};
  for (int other = 3; other <= 7; ++other) {
    inputs.push_back(stripper.Aliased(std::string(InputName(node, other))));
  }
  GQ_RETURN_IF_ERROR(EmitFused(node, "LSTM", "", std::move(inputs), stripper));
  return true;
}

// ids, segments, word, position, segment tables, gamma, beta, mask, then scales and zero points of
// the five constants in the same order.
absl::StatusOr<bool> Embedding(const NodeProto& node, Stripper& stripper) {
  std::vector<std::string> inputs;
  for (int i = 0; i < 8; ++i) {
    const std::string name(InputName(node, i));
    if (i < 2 || i == 7 || name.empty()) {
      inputs.push_back(stripper.Aliased(name));
      continue;
    }
    GQ_ASSIGN_OR_RETURN(std::string real,
                        stripper.Real(name, GridAt(node, 8 + i - 2, 13 + i - 2), node));
    inputs.push_back(std::move(real));
  }
  GQ_RETURN_IF_ERROR(
      EmitFused(node, "EmbedLayerNormalization", kMicrosoft, std::move(inputs), stripper));
  return true;
}

// MaxPool over integers whose channels are last.
absl::StatusOr<bool> ChannelsLastMaxPool(const NodeProto& node, Stripper& stripper) {
  const Meaning* meaning = stripper.Find(InputOf(node, 0));
  if (meaning == nullptr || meaning->kind != Meaning::Kind::kQuantized) {
    return stripper.Refuse(node, "nothing says what its integers stand for");
  }
  const Grid grid = meaning->grid;
  GQ_ASSIGN_OR_RETURN(const std::string real, stripper.Real(InputOf(node, 0), grid, node));
  const int rank = static_cast<int>(graph::AttributeInts(node, "kernel_shape").size()) + 2;
  NodeProto plain = graph::MakeNode("MaxPool", node.name(), {}, {});
  *plain.mutable_attribute() = node.attribute();
  plain.add_input(real);
  stripper.Replaced(node);
  stripper.EmitQuantized(ChannelsFirst(std::move(plain), rank, stripper), OutputOf(node, 0), grid);
  return true;
}

absl::StatusOr<bool> Unknown(const NodeProto& node, Stripper& stripper) {
  return stripper.Refuse(node, "this product has no float form for it");
}

}  // namespace

StripRule FindContribRule(const NodeProto& node) {
  static const std::set<std::string, std::less<>> unknown = {"QMoE", "MulInteger", "QuantizeBFP",
                                                             "DequantizeBFP"};
  if (node.domain() != kMicrosoft) return nullptr;
  const std::string& op = node.op_type();
  if (op == "MatMulNBits") return MatMulBits;
  if (op == "GatherBlockQuantized") return GatherBlocks;
  if (op == "NhwcMaxPool") return ChannelsLastMaxPool;
  if (op == "QAttention") return Attention;
  if (op == "DynamicQuantizeLSTM") return Lstm;
  if (op == "QEmbedLayerNormalization") return Embedding;
  return unknown.contains(op) || op.starts_with("QOrdered") ? Unknown : nullptr;
}

}  // namespace gq::quantize
