#include "common/quantize/dynamic_quantization.h"

#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/dynamic_lstm.h"
#include "common/quantize/int4_blocks.h"
#include "common/quantize/names.h"
#include "common/quantize/parameters.h"
#include "common/quantize/quantize_values.h"

namespace gq::quantize {
namespace {

using base::StrCat;
using graph::TensorView;
using onnx::TensorProto;

// A product x * weight [+ bias] in the form that the writer works on.
struct Dense {
  std::vector<float> weight;  // [rows, columns], or the shape of `dims`
  std::vector<int64_t> dims;
  float alpha = 1;
  std::string bias;  // tensor to add; empty for none
};

class DynamicWriter {
 public:
  // Layers that fall back from int4 blocks to 8 bits have one scale a channel.
  explicit DynamicWriter(QuantizeContext& context)
      : context_(context),
        graph_(context.model.mutable_graph()),
        per_channel_(context.settings.per_channel ||
                     context.config.dynamic == DynamicForm::kInt4Blocks) {}

  absl::Status Run() {
    const auto& source = context_.float_model.graph();
    std::vector<onnx::NodeProto> nodes;
    nodes_ = &nodes;
    for (const auto& node : source.node()) {
      GQ_ASSIGN_OR_RETURN(const bool written, Write(node));
      if (written) {
        context_.placement.quantized.insert(&node);
      } else {
        nodes.push_back(node);
      }
    }
    graph_->clear_node();
    for (auto& node : nodes) *graph_->add_node() = std::move(node);
    std::map<std::string, int> fallbacks;
    for (const auto& [node, note] : context_.placement.notes) ++fallbacks[note];
    for (const auto& [note, count] : fallbacks) {
      context_.reporter.Info("Quantize",
                             StrCat(count, count == 1 ? " layer has " : " layers have ", note));
    }
    return absl::OkStatus();
  }

 private:
  void Refuse(const onnx::NodeProto& node, std::string reason) {
    context_.placement.unquantized.push_back({&node, std::move(reason)});
  }

  const TensorProto* FloatConstant(std::string_view tensor) const {
    const TensorProto* initializer = context_.index.Initializer(tensor);
    return initializer != nullptr && initializer->data_type() == TensorProto::FLOAT ? initializer
                                                                                    : nullptr;
  }

  absl::StatusOr<bool> Write(const onnx::NodeProto& node) {
    if (TakesRows(node)) {
      GQ_RETURN_IF_ERROR(WriteTable(node));
      return true;
    }
    if (graph::IsOp(node, "LSTM")) return WriteLstm(node);
    const bool dense = graph::IsOp(node, "MatMul") || graph::IsOp(node, "Gemm");
    if (!dense && !graph::IsOp(node, "Conv")) {
      Refuse(node, node.op_type() == "ConvTranspose"
                       ? "there is no integer ConvTranspose with ranges found at run time"
                       : "operator type is not quantized");
      return false;
    }
    if (!IsSelected(node, context_.settings, context_.targets)) {
      Refuse(node, "excluded by the configuration");
      return false;
    }
    const TensorProto* weight = FloatConstant(node.input(1));
    if (weight == nullptr || context_.index.ElemType(node.input(0)) != TensorProto::FLOAT) {
      Refuse(node, "its weight is not constant");
      return false;
    }
    if (!dense) {
      FallBack(node, "a convolution takes no int4");
      GQ_RETURN_IF_ERROR(WriteConv(node, *weight));
      return true;
    }
    GQ_ASSIGN_OR_RETURN(Dense product, DenseOf(node, *weight));
    std::string input = node.input(0);
    if (graph::AttributeInt(node, "transA", 0) > 0) input = Transposed(node);
    const bool in_int8 = IsGivenInt8(node);
    const bool blocks =
        context_.config.dynamic == DynamicForm::kInt4Blocks && product.dims.size() == 2 && !in_int8;
    const std::string output = Output(node, !product.bias.empty());
    if (blocks) {
      WriteBlocks(node, input, product, output);
    } else {
      FallBack(node, in_int8 ? "named by the configuration"
                             : "a weight of more than two dimensions takes no int4");
      WriteMatMulInteger(node, input, product, output);
    }
    if (!product.bias.empty())
      Add("Add", node.name() + "_bias", {output, product.bias}, node.output(0));
    return true;
  }

  absl::StatusOr<bool> WriteLstm(const onnx::NodeProto& node) {
    if (std::string why = WhyLstmStaysFloat(node, context_); !why.empty()) {
      Refuse(node, std::move(why));
      return false;
    }
    FallBack(node, "an LSTM takes no int4");
    GQ_ASSIGN_OR_RETURN(nodes_->emplace_back(), DynamicLstm(node, per_channel_, context_));
    return true;
  }

  bool IsGivenInt8(const onnx::NodeProto& node) const {
    const TensorOverride* own = context_.targets.Override(node.input(1));
    return own != nullptr && own->type == TensorProto::INT8;
  }

  // With W4 the node has 8 bits for this reason.
  void FallBack(const onnx::NodeProto& node, std::string_view why) {
    if (context_.config.dynamic != DynamicForm::kInt4Blocks) return;
    context_.placement.notes[&node] = StrCat("8 bits: ", why);
  }

  // A table of floats that is large enough to be worth it, its rows taken by Gather.
  bool TakesRows(const onnx::NodeProto& node) const {
    constexpr int64_t kLeastElements = 1 << 14;
    if (!graph::IsOp(node, "Gather") || graph::AttributeInt(node, "axis", 0) != 0) return false;
    const TensorProto* table = FloatConstant(node.input(0));
    if (table == nullptr || table->dims_size() != 2 ||
        context_.targets.excluded.contains(node.name())) {
      return false;
    }
    return table->dims(0) > 1 && table->dims(0) * table->dims(1) >= kLeastElements;
  }

  // Rows of integers times the scales of the same rows.
  absl::Status WriteTable(const onnx::NodeProto& node) {
    const std::string& name = node.input(0);
    GQ_ASSIGN_OR_RETURN(const TensorView view, context_.float_model.Data(*FloatConstant(name)));
    if (!tables_.contains(name)) {
      QuantizedTensor tensor = Weight(name, view.As<float>(), view.dims(), 0, TensorProto::INT8);
      std::vector<float> scales;
      for (const auto& params : tensor.params) scales.push_back(params.scale);
      tensor.data_name = Constant(QuantizedName(name),
                                  QuantizeTensor(view.As<float>(), view.dims(), 0, tensor.params));
      tensor.scale_name =
          Constant(ScaleName(name), TensorView::Of<float>({view.dims()[0], 1}, scales));
      tables_[name] = {tensor.data_name, tensor.scale_name};
      context_.AddTensor(std::move(tensor));
    }
    const auto& [integers, scales] = tables_[name];
    const std::string rows = Tensor(node.output(0) + "_integer");
    const std::string floats = Tensor(node.output(0) + "_rows");
    const std::string row_scales = Tensor(node.output(0) + "_scales");
    Add("Gather", node.name(), {integers, node.input(1)}, rows);
    Add("Cast", node.name() + "_cast", {rows}, floats);
    graph::SetAttribute("to", int64_t{TensorProto::FLOAT}, &nodes_->back());
    Add("Gather", node.name() + "_scales", {scales, node.input(1)}, row_scales);
    Add("Mul", node.name() + "_rescale", {floats, row_scales}, node.output(0));
    FallBack(node, "rows of a table take no int4");
    return absl::OkStatus();
  }

  // The weight as [K, N], and what is added.
  absl::StatusOr<Dense> DenseOf(const onnx::NodeProto& node, const TensorProto& weight) {
    GQ_ASSIGN_OR_RETURN(const TensorView view, context_.float_model.Data(weight));
    Dense dense{.dims = view.dims()};
    const auto values = view.As<float>();
    if (node.op_type() != "Gemm" || graph::AttributeInt(node, "transB", 0) == 0) {
      dense.weight.assign(values.begin(), values.end());
    } else {
      const int64_t rows = view.dims()[1];
      const int64_t columns = view.dims()[0];
      dense.dims = {rows, columns};
      dense.weight.resize(values.size());
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          dense.weight[row * columns + column] = values[column * rows + row];
        }
      }
    }
    if (node.op_type() != "Gemm") return dense;
    dense.alpha = graph::AttributeFloat(node, "alpha", 1);
    const float beta = graph::AttributeFloat(node, "beta", 1);
    if (graph::InputName(node, 2).empty() || beta == 0) return dense;
    dense.bias = node.input(2);
    if (beta != 1) {
      const std::string factor =
          Constant(node.name() + "_beta", TensorView::Of<float>({}, std::vector<float>{beta}));
      const std::string scaled = Tensor(node.name() + "_scaled_bias");
      Add("Mul", node.name() + "_scale_bias", {dense.bias, factor}, scaled);
      dense.bias = scaled;
    }
    return dense;
  }

  void WriteMatMulInteger(const onnx::NodeProto& node, const std::string& input,
                          const Dense& product, const std::string& output) {
    const int axis = per_channel_ && product.dims.size() == 2 ? 1 : -1;
    QuantizedTensor tensor =
        Weight(node.input(1), product.weight, product.dims, axis, TensorProto::INT8);
    std::vector<float> scales;
    for (const auto& params : tensor.params) scales.push_back(params.scale * product.alpha);
    tensor.data_name = Constant(QuantizedName(node.input(1)),
                                QuantizeTensor(product.weight, product.dims, axis, tensor.params));
    tensor.scale_name = Constant(
        ScaleName(node.input(1)),
        TensorView::Of<float>(axis < 0 ? std::vector<int64_t>{}
                                       : std::vector<int64_t>{static_cast<int64_t>(scales.size())},
                              scales));
    const Dynamic activation = Quantized(input);
    const std::string sums = Tensor(node.output(0) + "_integer");
    Add("MatMulInteger", node.name() + "_integer",
        {activation.values, tensor.data_name, activation.zero_point}, sums);
    Rescale(node, sums, activation, tensor.scale_name, output);
    context_.AddTensor(std::move(tensor));
  }

  void WriteBlocks(const onnx::NodeProto& node, const std::string& input, const Dense& product,
                   const std::string& output) {
    const Int4Blocks blocks = QuantizeInt4Blocks(product.weight, product.dims[0], product.dims[1],
                                                 context_.config.weight.group_size);
    std::vector<float> scales = blocks.scales;
    for (float& scale : scales) scale *= product.alpha;
    QuantizedTensor tensor{.name = node.input(1), .tensor_class = TensorClass::kWeight};
    tensor.params = {{.scale = 0, .type = TensorProto::INT4}};
    tensor.values = TensorView::Of<float>(product.dims, product.weight);
    tensor.data_name = Constant(
        QuantizedName(node.input(1)),
        TensorView::Own(TensorProto::UINT8, {blocks.columns, blocks.blocks, blocks.block_size / 2},
                        blocks.packed));
    tensor.scale_name =
        Constant(ScaleName(node.input(1)),
                 TensorView::Of<float>({static_cast<int64_t>(scales.size())}, scales));
    Add("MatMulNBits", node.name(), {input, tensor.data_name, tensor.scale_name}, output,
        kMicrosoftDomain);
    onnx::NodeProto& added = nodes_->back();
    graph::SetAttribute("K", blocks.rows, &added);
    graph::SetAttribute("N", blocks.columns, &added);
    graph::SetAttribute("bits", int64_t{4}, &added);
    graph::SetAttribute("block_size", blocks.block_size, &added);
    graph::SetAttribute("accuracy_level", int64_t{4}, &added);
    context_.AddTensor(std::move(tensor));
  }

  absl::Status WriteConv(const onnx::NodeProto& node, const TensorProto& weight) {
    GQ_ASSIGN_OR_RETURN(const TensorView view, context_.float_model.Data(weight));
    const auto values = view.As<float>();
    const int axis = per_channel_ ? 0 : -1;
    QuantizedTensor tensor = Weight(node.input(1), values, view.dims(), axis, TensorProto::INT8);
    TensorView data = QuantizeTensor(values, view.dims(), axis, tensor.params);
    // The same steps around 128.
    std::vector<uint8_t> shifted;
    for (const int8_t value : data.As<int8_t>())
      shifted.push_back(static_cast<uint8_t>(value + 128));
    tensor.data_name =
        Constant(QuantizedName(node.input(1)), TensorView::Of<uint8_t>(view.dims(), shifted));
    tensor.zero_point_name = Constant(ZeroPointName(node.input(1)),
                                      TensorView::Of<uint8_t>({}, std::vector<uint8_t>{128}));
    std::vector<int64_t> per_channel(view.dims().size() - 1, 1);
    per_channel[0] = static_cast<int64_t>(tensor.params.size());
    if (axis < 0) per_channel.clear();
    std::vector<float> scales;
    for (const auto& params : tensor.params) scales.push_back(params.scale);
    tensor.scale_name =
        Constant(ScaleName(node.input(1)), TensorView::Of<float>(per_channel, scales));

    const Dynamic activation = Quantized(node.input(0));
    const bool biased = node.input_size() > 2 && !node.input(2).empty();
    const std::string output = Output(node, biased);
    const std::string sums = Tensor(node.output(0) + "_integer");
    Add("ConvInteger", node.name() + "_integer",
        {activation.values, tensor.data_name, activation.zero_point, tensor.zero_point_name}, sums);
    *nodes_->back().mutable_attribute() = node.attribute();
    Rescale(node, sums, activation, tensor.scale_name, output);
    if (biased) GQ_RETURN_IF_ERROR(AddConvBias(node, view.dims(), output));
    context_.AddTensor(std::move(tensor));
    return absl::OkStatus();
  }

  // The bias lies along axis 1 of the result.
  absl::Status AddConvBias(const onnx::NodeProto& node, const std::vector<int64_t>& weight_dims,
                           const std::string& output) {
    std::vector<int64_t> shape(weight_dims.size() - 1, 1);
    shape[0] = weight_dims[0];
    std::string bias = node.input(2);
    if (const TensorProto* constant = FloatConstant(bias)) {
      GQ_ASSIGN_OR_RETURN(const TensorView view, context_.float_model.Data(*constant));
      bias = Constant(bias + "_column", TensorView::Of<float>(shape, view.As<float>()));
    } else {
      const std::string dims =
          Constant(node.name() + "_bias_shape",
                   TensorView::Of<int64_t>({static_cast<int64_t>(shape.size())}, shape));
      const std::string column = Tensor(node.name() + "_bias_column");
      Add("Reshape", node.name() + "_reshape_bias", {bias, dims}, column);
      bias = column;
    }
    Add("Add", node.name() + "_bias", {output, bias}, node.output(0));
    return absl::OkStatus();
  }

  // An activation as DynamicQuantizeLinear makes it; one node for all its readers.
  struct Dynamic {
    std::string values;
    std::string scale;
    std::string zero_point;
  };
  const Dynamic& Quantized(const std::string& tensor) {
    const auto found = dynamic_.find(tensor);
    if (found != dynamic_.end()) return found->second;
    Dynamic dynamic{Tensor(tensor + "_quantized"), Tensor(tensor + "_scale"),
                    Tensor(tensor + "_zero_point")};
    nodes_->push_back(graph::MakeNode(
        "DynamicQuantizeLinear", context_.names.UniqueNode(tensor + "_DynamicQuantizeLinear"),
        {tensor}, {dynamic.values, dynamic.scale, dynamic.zero_point}));
    return dynamic_.emplace(tensor, std::move(dynamic)).first->second;
  }

  void Rescale(const onnx::NodeProto& node, const std::string& sums, const Dynamic& activation,
               const std::string& weight_scale, const std::string& output) {
    const std::string floats = Tensor(node.output(0) + "_sums");
    Add("Cast", node.name() + "_cast", {sums}, floats);
    graph::SetAttribute("to", int64_t{TensorProto::FLOAT}, &nodes_->back());
    const std::string scales = Tensor(node.output(0) + "_scales");
    Add("Mul", node.name() + "_scales", {activation.scale, weight_scale}, scales);
    Add("Mul", node.name() + "_rescale", {floats, scales}, output);
  }

  std::string Transposed(const onnx::NodeProto& node) {
    std::string turned = Tensor(node.input(0) + "_transposed");
    Add("Transpose", node.name() + "_transpose", {node.input(0)}, turned);
    graph::SetAttribute("perm", std::vector<int64_t>{1, 0}, &nodes_->back());
    return turned;
  }

  QuantizedTensor Weight(const std::string& name, std::span<const float> values,
                         std::span<const int64_t> dims, int axis, ElementType type) {
    QuantizedTensor tensor{.name = name, .tensor_class = TensorClass::kWeight, .axis = axis};
    const int64_t channels = axis < 0 ? 1 : dims[axis];
    for (int64_t channel = 0; channel < channels; ++channel) {
      const std::vector<float> own = axis < 0 ? std::vector<float>(values.begin(), values.end())
                                              : ChannelValues(values, dims, axis, channel);
      tensor.params.push_back(IntegerParams(RangeOfValues(own), type, true, ScaleType::kFloat32));
    }
    tensor.values = TensorView::Of<float>({dims.begin(), dims.end()}, values);
    return tensor;
  }

  // Name of the product before a bias is added, or the node's output.
  std::string Output(const onnx::NodeProto& node, bool biased) {
    if (!biased) return node.output(0);
    std::string product = Tensor(node.output(0) + "_product");
    context_.renamed[product] = node.output(0);
    return product;
  }

  std::string Tensor(const std::string& wanted) { return context_.names.Unique(wanted); }
  std::string Constant(const std::string& wanted, const TensorView& data) {
    std::string name = context_.names.Unique(wanted);
    context_.model.AddInitializer(name, data);
    return name;
  }
  void Add(std::string_view type, const std::string& name, const std::vector<std::string>& inputs,
           const std::string& output, std::string_view domain = "") {
    nodes_->push_back(
        graph::MakeNode(type, context_.names.UniqueNode(name), inputs, {output}, domain));
  }

  QuantizeContext& context_;
  onnx::GraphProto* graph_;
  const bool per_channel_;
  std::vector<onnx::NodeProto>* nodes_ = nullptr;
  absl::flat_hash_map<std::string, Dynamic> dynamic_;
  // Table of rows -> its integers and scales.
  absl::flat_hash_map<std::string, std::pair<std::string, std::string>> tables_;
};

}  // namespace

absl::Status QuantizeDynamically(QuantizeContext& context) { return DynamicWriter(context).Run(); }

}  // namespace gq::quantize
