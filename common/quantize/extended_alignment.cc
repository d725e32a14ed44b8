#include "common/quantize/extended_alignment.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {
namespace {

using graph::TensorView;

// The Q and DQ node of a pair.
struct Pair {
  const onnx::NodeProto* quantize = nullptr;
  const onnx::NodeProto* dequantize = nullptr;
  explicit operator bool() const { return quantize != nullptr && dequantize != nullptr; }
};

bool SameValues(const TensorView& a, const TensorView& b) {
  if (a.dims() != b.dims()) return false;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (a.At(i) != b.At(i)) return false;
  }
  return true;
}

class ExtendedAligner {
 public:
  explicit ExtendedAligner(QuantizeContext& context)
      : context_(context), index_(context.model.graph()), initializers_(context.model) {}

  absl::StatusOr<int> Run() {
    const Alignment& wanted = context_.settings.alignment;
    bool moved = true;
    for (int round = 0; moved && round < wanted.max_rounds; ++round) {
      const int before = changed_;
      if (wanted.concat) GQ_RETURN_IF_ERROR(OutputToInputs({"Concat"}));
      if (wanted.pool) {
        GQ_RETURN_IF_ERROR(InputToOutputs({"MaxPool", "AveragePool", "GlobalAveragePool"}));
      }
      if (wanted.pad) GQ_RETURN_IF_ERROR(OutputToInputs({"Pad"}));
      if (wanted.slice) GQ_RETURN_IF_ERROR(InputToOutputs({"Slice"}));
      if (wanted.transpose) GQ_RETURN_IF_ERROR(OutputToInputs({"Transpose"}));
      if (wanted.reshape) GQ_RETURN_IF_ERROR(OutputToInputs({"Reshape"}));
      moved = changed_ != before;
      if (wanted.bias_scale) BiasScales();
    }
    if (moved) {
      context_.Warn(base::StrCat("Alignment did not settle in ", wanted.max_rounds, " rounds"));
    }
    return changed_;
  }

 private:
  Pair InputPair(std::string_view tensor) const {
    const onnx::NodeProto* dequantize = index_.Producer(tensor);
    if (dequantize == nullptr || !IsDequantizeNode(*dequantize)) return {};
    const onnx::NodeProto* quantize = index_.Producer(dequantize->input(0));
    if (quantize == nullptr || !IsQuantizeNode(*quantize)) return {};
    return {quantize, dequantize};
  }

  absl::StatusOr<Pair> OutputPair(const onnx::NodeProto& node, std::string_view tensor) const {
    const auto uses = index_.Uses(tensor);
    if (uses.empty()) return Pair{};
    if (uses.size() > 1 && context_.settings.quark) {
      return base::MakeError(
          base::Reason::kConfigInvalid,
          base::StrCat("'", node.name(), "' cannot be aligned: its output has several readers"),
          "Switch the Align options off, or leave Compatibility quark.");
    }
    const onnx::NodeProto* quantize = &index_.node(uses[0].node);
    if (!IsQuantizeNode(*quantize)) return Pair{};
    const auto readers = index_.Uses(quantize->output(0));
    if (readers.empty()) return Pair{};
    const onnx::NodeProto* dequantize = &index_.node(readers[0].node);
    if (!IsDequantizeNode(*dequantize)) return Pair{};
    return Pair{quantize, dequantize};
  }

  template <typename Visitor>
  absl::Status ForEach(std::initializer_list<std::string_view> types, Visitor visit) {
    for (const auto& node : context_.model.graph().node()) {
      if (std::find(types.begin(), types.end(), node.op_type()) == types.end()) continue;
      GQ_RETURN_IF_ERROR(visit(node));
    }
    return absl::OkStatus();
  }

  absl::Status OutputToInputs(std::initializer_list<std::string_view> types) {
    return ForEach(types, [this](const onnx::NodeProto& node) -> absl::Status {
      GQ_ASSIGN_OR_RETURN(const Pair output, OutputPair(node, node.output(0)));
      if (!output) return absl::OkStatus();
      for (const auto& tensor : node.input()) Copy(node, output, InputPair(tensor));
      return absl::OkStatus();
    });
  }

  absl::Status InputToOutputs(std::initializer_list<std::string_view> types) {
    return ForEach(types, [this](const onnx::NodeProto& node) -> absl::Status {
      const Pair input = InputPair(node.input(0));
      for (const auto& tensor : node.output()) {
        GQ_ASSIGN_OR_RETURN(const Pair output, OutputPair(node, tensor));
        if (input) Copy(node, input, output);
      }
      return absl::OkStatus();
    });
  }

  void Copy(const onnx::NodeProto& node, const Pair& from, const Pair& to) {
    if (!to) return;
    const auto scale = Values(from.dequantize->input(1));
    const auto zero_point = Values(from.dequantize->input(2));
    const auto old_scale = Values(to.dequantize->input(1));
    const auto old_zero_point = Values(to.dequantize->input(2));
    if (!context_.settings.quark && zero_point.dtype() != old_zero_point.dtype()) return;
    if (SameValues(scale, old_scale) && SameValues(zero_point, old_zero_point)) return;
    for (const onnx::NodeProto* target : {to.dequantize, to.quantize}) {
      Set(target->input(1), scale);
      Set(target->input(2), zero_point);
    }
    context_.alignment.push_back({.rule = base::StrCat("equal parameters of ", node.op_type()),
                                  .node = node.name(),
                                  .scale = to.dequantize->input(1),
                                  .before = PositionOfScale(static_cast<float>(old_scale.At(0))),
                                  .after = PositionOfScale(static_cast<float>(scale.At(0)))});
    ++changed_;
  }

  TensorView Values(std::string_view name) const {
    const onnx::TensorProto* tensor = initializers_.Find(name);
    if (tensor == nullptr) return {};
    const auto data = context_.model.Data(*tensor);
    return data.ok() ? *data : TensorView();
  }

  void Set(std::string_view name, const TensorView& values) {
    if (onnx::TensorProto* tensor = initializers_.Find(name)) {
      context_.model.SetData(values, tensor);
    }
  }

  // Integers of an int32 bias follow when its scale does.
  void BiasScales() {
    for (const auto& node : context_.model.graph().node()) {
      const bool compute =
          node.op_type() == "Conv" || node.op_type() == "Gemm" || node.op_type() == "ConvTranspose";
      if (compute && node.input_size() == 3) BiasScale(node);
    }
  }

  void BiasScale(const onnx::NodeProto& node) {
    const onnx::NodeProto* dequantize[3];
    for (int i = 0; i < 3; ++i) {
      dequantize[i] = index_.Producer(node.input(i));
      if (dequantize[i] == nullptr || !IsDequantizeNode(*dequantize[i])) return;
    }
    const auto input = Values(dequantize[0]->input(1));
    const auto weight = Values(dequantize[1]->input(1));
    const auto bias = Values(dequantize[2]->input(1));
    const auto data = Values(dequantize[2]->input(0));
    if (input.size() != 1 || weight.size() == 0 || data.dtype() != onnx::TensorProto::INT32 ||
        weight.size() != bias.size()) {
      return;
    }
    std::vector<float> product;
    bool all_differ = true;
    for (int64_t i = 0; i < weight.size(); ++i) {
      product.push_back(static_cast<float>(input.At(0)) * static_cast<float>(weight.At(i)));
      all_differ = all_differ && product.back() != static_cast<float>(bias.At(i));
    }
    if (!all_differ) return;
    std::vector<int32_t> values;
    for (int64_t i = 0; i < data.size(); ++i) {
      const int64_t channel = weight.size() == 1 ? 0 : i % weight.size();
      const double ratio = static_cast<double>(product[channel]) / bias.At(channel);
      const double value = data.At(i) / ratio;
      // Quark truncates.
      values.push_back(static_cast<int32_t>(context_.settings.quark ? std::trunc(value)
                                                                    : std::nearbyint(value)));
    }
    Set(dequantize[2]->input(0), TensorView::Of<int32_t>(data.dims(), values));
    Set(dequantize[2]->input(1), TensorView::Of<float>(bias.dims(), product));
  }

  QuantizeContext& context_;
  const graph::GraphIndex index_;
  const InitializerMap initializers_;
  int changed_ = 0;
};

}  // namespace

absl::StatusOr<int> AlignExtended::Run(QuantizeContext& context) const {
  return ExtendedAligner(context).Run();
}

}  // namespace gq::quantize
