#include "common/quantize/dynamic_lstm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/quantize/names.h"
#include "common/quantize/parameters.h"
#include "common/quantize/quantize_values.h"

namespace gq::quantize {
namespace {

using graph::TensorView;
using onnx::TensorProto;

// Names of integers, scales and zero points.
struct Integers {
  std::string values, scales, zero_points;
};

// [directions, rows, columns] becomes int8 [directions, columns, rows], as the operator reads it.
absl::StatusOr<Integers> Quantized(const std::string& name, bool per_channel,
                                   QuantizeContext& context) {
  GQ_ASSIGN_OR_RETURN(const TensorView view,
                      context.float_model.Data(*context.index.Initializer(name)));
  const auto values = view.As<float>();
  const int64_t directions = view.dims()[0], rows = view.dims()[1], columns = view.dims()[2];
  // Rows that share a scale lie together.
  const int64_t groups = per_channel ? directions * rows : directions;
  const std::vector<int64_t> dims = {groups, view.size() / std::max<int64_t>(1, groups)};
  QuantizedTensor tensor{.name = name, .tensor_class = TensorClass::kWeight, .axis = 0};
  std::vector<float> scales;
  for (int64_t group = 0; group < groups; ++group) {
    const ValueRange range = RangeOfValues(ChannelValues(values, dims, 0, group));
    tensor.params.push_back(IntegerParams(range, TensorProto::INT8, true, ScaleType::kFloat32));
    scales.push_back(tensor.params.back().scale);
  }
  tensor.values = TensorView::Of<float>(dims, values);
  const std::vector<std::byte> bytes = QuantizePerChannel(values, dims, 0, tensor.params);
  std::vector<int8_t> turned(bytes.size());
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        turned[(d * columns + c) * rows + r] =
            static_cast<int8_t>(bytes[(d * rows + r) * columns + c]);
      }
    }
  }
  const auto constant = [&](const std::string& wanted, const TensorView& data) {
    std::string unique = context.names.Unique(wanted);
    context.model.AddInitializer(unique, data);
    return unique;
  };
  std::vector<int64_t> shape = {directions};
  if (per_channel) shape.push_back(rows);
  tensor.data_name =
      constant(QuantizedName(name), TensorView::Of<int8_t>({directions, columns, rows}, turned));
  tensor.scale_name = constant(ScaleName(name), TensorView::Of<float>(shape, scales));
  tensor.zero_point_name = constant(
      ZeroPointName(name), TensorView::Of<int8_t>(shape, std::vector<int8_t>(scales.size())));
  Integers integers = {tensor.data_name, tensor.scale_name, tensor.zero_point_name};
  context.AddTensor(std::move(tensor));
  return integers;
}

}  // namespace

std::string WhyLstmStaysFloat(const onnx::NodeProto& node, const QuantizeContext& context) {
  if (context.targets.excluded.contains(node.name()) ||
      (!context.settings.only_nodes.empty() &&
       !context.settings.only_nodes.contains(node.name()))) {
    return "excluded by the configuration";
  }
  if (graph::AttributeInt(node, "layout", 0) != 0) {
    return "the integer LSTM has no batch-first layout";
  }
  if (context.index.ElemType(node.input(0)) != TensorProto::FLOAT) return "it is not float32";
  for (const int input : {1, 2}) {
    const TensorProto* weight = context.index.Initializer(graph::InputName(node, input));
    if (weight == nullptr || weight->data_type() != TensorProto::FLOAT ||
        weight->dims_size() != 3) {
      return "its weight is not constant";
    }
    if (context.FindTensor(weight->name()) != nullptr) return "it shares a weight with another";
  }
  return "";
}

absl::StatusOr<onnx::NodeProto> DynamicLstm(const onnx::NodeProto& node, bool per_channel,
                                            QuantizeContext& context) {
  GQ_ASSIGN_OR_RETURN(const Integers weights, Quantized(node.input(1), per_channel, context));
  GQ_ASSIGN_OR_RETURN(const Integers recurrent, Quantized(node.input(2), per_channel, context));
  constexpr int kFloatInputs = 8;  // up to the peepholes
  onnx::NodeProto lstm = node;
  lstm.set_op_type("DynamicQuantizeLSTM");
  lstm.set_domain(std::string(kMicrosoftDomain));
  graph::RemoveAttribute("layout", &lstm);
  lstm.set_input(1, weights.values);
  lstm.set_input(2, recurrent.values);
  while (lstm.input_size() < kFloatInputs) lstm.add_input("");
  for (const std::string& name :
       {weights.scales, weights.zero_points, recurrent.scales, recurrent.zero_points}) {
    lstm.add_input(name);
  }
  return lstm;
}

}  // namespace gq::quantize
