#include "common/quantize/qdq_insertion.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/bias_parameters.h"
#include "common/quantize/names.h"
#include "common/quantize/parameters.h"
#include "common/quantize/quantize_values.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;
using graph::TensorView;

class Inserter {
 public:
  explicit Inserter(QuantizeContext& context)
      : context_(context), graph_(context.model.mutable_graph()) {
    for (int i = 0; i < graph_->node_size(); ++i) {
      for (int o = 0; o < graph_->node(i).output_size(); ++o) {
        producers_[graph_->node(i).output(o)] = {i, o};
      }
    }
  }

  absl::Status Run() {
    AbsorbActivations();
    std::vector<const PlannedTensor*> shared;
    for (const auto& tensor : context_.placement.tensors) {
      if (!tensor.shares_with.empty()) {
        shared.push_back(&tensor);
      } else if (context_.index.IsInitializer(tensor.name)) {
        GQ_RETURN_IF_ERROR(InsertWeight(tensor));
      } else {
        GQ_RETURN_IF_ERROR(InsertActivation(tensor.name));
      }
    }
    GQ_RETURN_IF_ERROR(InsertShared(std::move(shared)));
    for (const auto& bias : context_.placement.biases) GQ_RETURN_IF_ERROR(InsertBias(bias));
    DropBeta();
    RemoveAbsorbed();
    return absl::OkStatus();
  }

 private:
  struct OutputSlot {
    int node;
    int output;
  };

  // --- Nodes ------------------------------------------------------------------------------------
  bool Extended() const { return context_.settings.path == Path::kExtended; }

  void AddQuantize(const std::string& name, const std::string& input, const std::string& output,
                   const QuantizedTensor& tensor) {
    AddNode(Extended() ? kExtendedQuantize : "QuantizeLinear", name, input, output, tensor);
  }
  void AddDequantize(const std::string& name, const std::string& input, const std::string& output,
                     const QuantizedTensor& tensor) {
    AddNode(Extended() ? kExtendedDequantize : "DequantizeLinear", name, input, output, tensor);
  }
  void AddNode(std::string_view type, const std::string& name, const std::string& input,
               const std::string& output, const QuantizedTensor& tensor) {
    std::string_view domain;
    if (Extended()) {
      domain = kQuarkDomain;
    } else if (context_.settings.contrib_domain) {
      domain = kMicrosoftDomain;
    }
    *graph_->add_node() =
        graph::MakeNode(type, context_.names.UniqueNode(name),
                        {input, tensor.scale_name, tensor.zero_point_name}, {output}, domain);
    if (tensor.axis >= 0) {
      graph::SetAttribute("axis", int64_t{tensor.axis},
                          graph_->mutable_node(graph_->node_size() - 1));
    }
  }

  void ReplaceReaders(const std::string& tensor, const std::string& replacement) {
    for (const auto& use : context_.index.Uses(tensor)) {
      if (use.input == graph::TensorUse::kCaptured) continue;
      *graph_->mutable_node(use.node)->mutable_input(use.input) = replacement;
    }
  }

  void ReplaceReader(const onnx::NodeProto* reader, const std::string& tensor,
                     const std::string& replacement) {
    onnx::NodeProto* node = graph_->mutable_node(context_.index.PositionOf(*reader));
    for (auto& input : *node->mutable_input()) {
      if (input == tensor) input = replacement;
    }
  }

  std::string AddInitializer(const std::string& wanted, const TensorView& data) {
    std::string name = context_.names.Unique(wanted);
    context_.model.AddInitializer(name, data);
    return name;
  }

  // --- Weights ----------------------------------------------------------------------------------
  absl::Status InsertWeight(const PlannedTensor& planned) {
    const onnx::TensorProto* initializer = context_.index.Initializer(planned.name);
    GQ_ASSIGN_OR_RETURN(TensorView view, context_.float_model.Data(*initializer));
    const ElementType type = StoredType(planned.name);
    // Quark does so only where all weights are bfloat16.
    const bool clamps = context_.settings.quark
                            ? context_.settings.weight_type == onnx::TensorProto::BFLOAT16 &&
                                  type == onnx::TensorProto::BFLOAT16
                            : IsReducedFloat(type);
    if (clamps) view = Clamped(view, planned.name, type);
    // Of constants only those that make masks have a range: LimitMaskRanges gives them one.
    const auto limit = context_.observed.find(planned.name);
    if (limit != context_.observed.end()) view = Floored(view, limit->second.min);
    const auto values = view.As<float>();

    QuantizedTensor tensor;
    tensor.name = planned.name;
    tensor.tensor_class = TensorClass::kWeight;
    tensor.axis = planned.axis;
    tensor.params = WeightParams(context_, planned.name, values, view.dims(), planned.axis);
    tensor.values = view;
    tensor.scale_name =
        AddInitializer(ScaleName(planned.name), ScaleTensor(tensor.params, planned.axis));
    tensor.zero_point_name =
        AddInitializer(ZeroPointName(planned.name), ZeroPointTensor(tensor.params, planned.axis));

    const std::string output = context_.names.Unique(DequantizeOutputName(planned.name));
    ReplaceReaders(planned.name, output);
    if (context_.settings.weight_pairs) {
      const std::string middle = context_.names.Unique(QuantizeOutputName(planned.name));
      AddQuantize(QuantizeNodeName(planned.name), planned.name, middle, tensor);
      AddDequantize(DequantizeNodeName(planned.name), middle, output, tensor);
    } else {
      tensor.data_name =
          AddInitializer(QuantizedName(planned.name),
                         QuantizeTensor(values, view.dims(), planned.axis, tensor.params));
      AddDequantize(DequantizeNodeName(planned.name), tensor.data_name, output, tensor);
    }
    context_.AddTensor(std::move(tensor));
    return absl::OkStatus();
  }

  static TensorView Floored(const TensorView& view, float floor) {
    std::vector<float> values(view.As<float>().begin(), view.As<float>().end());
    for (float& value : values) value = std::max(value, floor);
    return TensorView::Of<float>(view.dims(), values);
  }

  ElementType StoredType(const std::string& name) const {
    const TensorOverride* override = context_.targets.Override(name);
    return override == nullptr ? context_.settings.weight_type : override->type;
  }

  // The weight within the finite range of its type; the float initializer, where it stays, too.
  TensorView Clamped(const TensorView& view, const std::string& name, ElementType type) {
    const auto clamped = TensorView::Of<float>(view.dims(), ClampToFinite(view.As<float>(), type));
    for (auto& initializer : *graph_->mutable_initializer()) {
      if (initializer.name() == name) context_.model.SetData(clamped, &initializer);
    }
    return clamped;
  }

  // --- Activations ------------------------------------------------------------------------------
  absl::Status InsertActivation(const std::string& name) {
    GQ_ASSIGN_OR_RETURN(const QuantParams params, ActivationParams(context_, name));
    QuantizedTensor tensor;
    tensor.name = name;
    tensor.params = {params};
    tensor.zero_point_name =
        AddInitializer(ZeroPointName(name), ZeroPointTensor(tensor.params, -1));
    tensor.scale_name = AddInitializer(ScaleName(name), ScaleTensor(tensor.params, -1));
    return InsertPairs(std::move(tensor));
  }

  absl::Status InsertPairs(QuantizedTensor tensor) {
    const auto readers = context_.placement.readers.find(tensor.name);
    const bool read = readers != context_.placement.readers.end();
    const bool for_some = read && MadeInFloat(tensor.name) && HasOtherReaders(tensor.name);
    if (for_some || (read && readers->second.size() > 1)) {
      InsertDedicated(tensor, readers->second);
    } else {
      InsertPair(tensor);
    }
    context_.AddTensor(std::move(tensor));
    return absl::OkStatus();
  }

  // The node that makes the tensor is not quantized, so its float readers need no pair; Quark gives
  // them one where a single quantized node reads beside them.
  bool MadeInFloat(const std::string& tensor) const {
    if (context_.settings.quark) return false;
    const onnx::NodeProto* producer = context_.index.Producer(tensor);
    return producer != nullptr && !context_.placement.quantized.contains(producer);
  }

  // Something that is not quantized reads the tensor.
  bool HasOtherReaders(const std::string& tensor) const {
    if (context_.index.IsGraphOutput(tensor)) return true;
    const auto uses = context_.index.Uses(tensor);
    return std::any_of(uses.begin(), uses.end(), [this](const graph::TensorUse& use) {
      return !context_.placement.quantized.contains(&context_.index.node(use.node));
    });
  }

  // What a quantized node makes is int8 for everybody: nodes that stay float among the readers.
  std::vector<const onnx::NodeProto*> FloatReadersOfIntegers(const std::string& tensor) const {
    std::vector<const onnx::NodeProto*> nodes;
    if (context_.settings.quark || MadeInFloat(tensor)) return nodes;
    for (const graph::TensorUse& use : context_.index.Uses(tensor)) {
      const onnx::NodeProto* node = &context_.index.node(use.node);
      if (use.input == graph::TensorUse::kCaptured || context_.placement.quantized.contains(node)) {
        continue;
      }
      nodes.push_back(node);
    }
    return nodes;
  }

  void InsertDedicated(const QuantizedTensor& tensor, std::vector<const onnx::NodeProto*> readers) {
    for (const onnx::NodeProto* node : FloatReadersOfIntegers(tensor.name)) {
      if (std::find(readers.begin(), readers.end(), node) == readers.end()) readers.push_back(node);
    }
    std::string source = tensor.name;
    if (context_.index.IsGraphOutput(tensor.name) && !context_.settings.quark &&
        !MadeInFloat(tensor.name)) {
      source = InsertOutputPair(tensor);
    }
    const onnx::NodeProto* previous = nullptr;
    int number = 0;
    for (const onnx::NodeProto* reader : readers) {
      // A node that reads the tensor twice takes one pair for both; Quark leaves a second unused.
      if (reader == previous && !context_.settings.quark) continue;
      previous = reader;
      const std::string suffix = base::StrCat("_", ++number);
      const std::string middle = context_.names.Unique(QuantizeOutputName(tensor.name) + suffix);
      const std::string output = context_.names.Unique(DequantizeOutputName(tensor.name) + suffix);
      AddQuantize(QuantizeNodeName(tensor.name) + suffix, source, middle, tensor);
      AddDequantize(DequantizeNodeName(tensor.name) + suffix, middle, output, tensor);
      ReplaceReader(reader, tensor.name, output);
    }
  }

  void InsertPair(const QuantizedTensor& tensor) {
    if (context_.index.IsGraphOutput(tensor.name)) {
      InsertOutputPair(tensor);
      return;
    }
    const std::string output = context_.names.Unique(DequantizeOutputName(tensor.name));
    ReplaceReaders(tensor.name, output);
    const std::string middle = context_.names.Unique(QuantizeOutputName(tensor.name));
    AddQuantize(QuantizeNodeName(tensor.name), tensor.name, middle, tensor);
    AddDequantize(DequantizeNodeName(tensor.name), middle, output, tensor);
  }

  // The pair on a graph output, whose name stays with the DQ. Returns the new name of the float
  // tensor.
  std::string InsertOutputPair(const QuantizedTensor& tensor) {
    const auto producer = producers_.find(tensor.name);
    if (producer == producers_.end()) return tensor.name;
    std::string source = context_.names.Unique(QuantizeInputName(tensor.name));
    *graph_->mutable_node(producer->second.node)->mutable_output(producer->second.output) = source;
    context_.renamed[source] = tensor.name;
    const std::string middle = context_.names.Unique(QuantizeOutputName(tensor.name));
    AddQuantize(QuantizeNodeName(tensor.name), source, middle, tensor);
    AddDequantize(DequantizeNodeName(tensor.name), middle, tensor.name, tensor);
    return source;
  }

  // Tensors that take over parameters, as soon as the provider has them.
  absl::Status InsertShared(std::vector<const PlannedTensor*> waiting) {
    while (!waiting.empty()) {
      std::vector<const PlannedTensor*> still_waiting;
      for (const PlannedTensor* planned : waiting) {
        const QuantizedTensor* provider = context_.FindTensor(planned->shares_with);
        if (provider == nullptr) {
          still_waiting.push_back(planned);
        } else {
          GQ_RETURN_IF_ERROR(InsertSharing(*planned, *provider));
        }
      }
      if (still_waiting.size() == waiting.size()) {
        return MakeError(
            Reason::kInternal,
            base::StrCat("Tensor '", waiting.front()->name, "' shares the parameters of '",
                         waiting.front()->shares_with, "', which has none"));
      }
      waiting = std::move(still_waiting);
    }
    return absl::OkStatus();
  }

  absl::Status InsertSharing(const PlannedTensor& planned, const QuantizedTensor& provider) {
    const bool own_type = context_.targets.Override(planned.name) != nullptr ||
                          context_.targets.Override(planned.shares_with) != nullptr;
    if (Extended() && own_type) return InsertActivation(planned.name);
    QuantizedTensor tensor;
    tensor.name = planned.name;
    tensor.params = provider.params;
    tensor.scale_name = provider.scale_name;
    tensor.zero_point_name = provider.zero_point_name;
    return InsertPairs(std::move(tensor));
  }

  // --- Biases -----------------------------------------------------------------------------------
  absl::Status InsertBias(const PlannedBias& planned) {
    if (planned.copy_of == nullptr && context_.FindTensor(planned.name) != nullptr) {
      return absl::OkStatus();
    }
    const QuantizedTensor* input = context_.FindTensor(planned.input);
    QuantizedTensor* weight = context_.MutableTensor(planned.weight);
    if (input == nullptr || weight == nullptr) {
      context_.Warn(base::StrCat("Bias '", planned.name, "' stays float: input or weight of '",
                                 planned.node->name(), "' is not quantized"));
      return absl::OkStatus();
    }
    const onnx::TensorProto* initializer = context_.index.Initializer(planned.name);
    GQ_ASSIGN_OR_RETURN(TensorView view, context_.float_model.Data(*initializer));
    float beta = planned.beta;
    if (!context_.settings.quark) {
      // beta goes into the values; Quark divides by it, so that it cancels out and is lost.
      view = Scaled(view, beta);
      beta = 1;
      if (WidenForBias(view.As<float>(), *input, weight)) ReplaceWeight(*weight);
    }
    const Int32Bias bias = QuantizeBias(view.As<float>(), input->params, weight->params, beta);
    // A scale for each channel needs an axis that is as long: that of a scalar is not.
    const int64_t last = view.dims().empty() ? 1 : view.dims().back();
    if (!context_.settings.quark && bias.scales.size() > 1 &&
        last != static_cast<int64_t>(bias.scales.size())) {
      context_.Warn(base::StrCat("Bias '", planned.name, "' stays float: it has no element for ",
                                 "each of the ", bias.scales.size(), " channels"));
      return absl::OkStatus();
    }
    if (bias.saturated) {
      context_.Warn(base::StrCat("Bias '", planned.name, "' exceeds the range of int32"));
    }

    QuantizedTensor tensor;
    tensor.name = planned.name;
    tensor.tensor_class = TensorClass::kBias;
    const int channel_axis = context_.settings.quark ? 0 : static_cast<int>(view.dims().size()) - 1;
    tensor.axis = bias.scales.size() > 1 ? channel_axis : -1;
    tensor.values = view;
    tensor.input_scale_name = input->scale_name;
    tensor.weight_scale_name = weight->scale_name;
    tensor.beta = beta;
    for (const float scale : bias.scales) {
      tensor.params.push_back({.scale = scale, .type = onnx::TensorProto::INT32});
    }
    const std::string data = QuantizedName(planned.name);
    tensor.data_name = AddInitializer(data, TensorView::Of<int32_t>(view.dims(), bias.values));
    tensor.scale_name = AddInitializer(
        ScaleName(data),
        TensorView::Of<float>({static_cast<int64_t>(bias.scales.size())}, bias.scales));
    tensor.zero_point_name =
        AddInitializer(ZeroPointName(data), ZeroPointTensor(tensor.params, tensor.axis));

    const bool of_one_node = planned.copy_of != nullptr || beta != planned.beta;
    if (!of_one_node) {
      // The DQ makes the tensor that the initializer was.
      RemoveInitializer(planned.name);
      AddDequantize(DequantizeNodeName(planned.name), tensor.data_name, planned.name, tensor);
      context_.AddTensor(std::move(tensor));
      return absl::OkStatus();
    }
    const std::string output = context_.names.Unique(DequantizeOutputName(planned.name));
    AddDequantize(DequantizeNodeName(planned.name), tensor.data_name, output, tensor);
    ReplaceReader(planned.node, planned.name, output);
    if (beta != planned.beta) SetBeta(*planned.node);
    context_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // Raises weight scales so far that the bias fits into int32 with the product of the scales; a
  // channel of tiny weights with a large bias would saturate otherwise. True when one was raised.
  bool WidenForBias(std::span<const float> bias, const QuantizedTensor& input,
                    QuantizedTensor* weight) const {
    const size_t channels = weight->params.size();
    if (context_.settings.activation_scale == ScaleType::kPowerOfTwo || weight->data_name.empty() ||
        (channels != 1 && channels != bias.size())) {
      return false;
    }
    bool raised = false;
    for (size_t i = 0; i < bias.size(); ++i) {
      QuantParams& params = weight->params[channels == 1 ? 0 : i];
      const double needed = LeastWeightScale(bias[i], input.params[0].scale);
      if (!(params.scale < needed)) continue;
      params.scale = static_cast<float>(needed);
      raised = true;
    }
    return raised;
  }

  // Stores a weight again with its present parameters.
  void ReplaceWeight(const QuantizedTensor& weight) {
    for (auto& initializer : *graph_->mutable_initializer()) {
      if (initializer.name() == weight.data_name) {
        context_.model.SetData(QuantizeTensor(weight.values.As<float>(), weight.values.dims(),
                                              weight.axis, weight.params),
                               &initializer);
      } else if (initializer.name() == weight.scale_name) {
        context_.model.SetData(ScaleTensor(weight.params, weight.axis), &initializer);
      }
    }
  }

  void RemoveInitializer(const std::string& name) {
    auto* initializers = graph_->mutable_initializer();
    for (int i = 0; i < initializers->size(); ++i) {
      if (initializers->Get(i).name() != name) continue;
      initializers->DeleteSubrange(i, 1);
      return;
    }
  }

  static TensorView Scaled(const TensorView& view, float factor) {
    if (factor == 1) return view;
    std::vector<float> values(view.As<float>().begin(), view.As<float>().end());
    for (float& value : values) value *= factor;
    return TensorView::Of<float>(view.dims(), values);
  }

  void SetBeta(const onnx::NodeProto& gemm) {
    graph::SetAttribute("beta", 1.0f, graph_->mutable_node(context_.index.PositionOf(gemm)));
  }

  // Quark takes beta off every Gemm with a constant bias.
  void DropBeta() {
    if (!context_.settings.quark) return;
    for (const onnx::NodeProto* gemm : context_.placement.beta_in_bias) SetBeta(*gemm);
  }

  // --- Relu and Clip that the zero point stands for
  // -----------------------------------------------
  void AbsorbActivations() {
    for (const onnx::NodeProto* node : context_.placement.absorbed) {
      const auto producer = producers_.find(node->input(0));
      if (producer == producers_.end()) continue;
      const OutputSlot slot = producer->second;
      *graph_->mutable_node(slot.node)->mutable_output(slot.output) = node->output(0);
      producers_[node->output(0)] = slot;
    }
  }

  void RemoveAbsorbed() {
    std::vector<int> positions;
    for (const onnx::NodeProto* node : context_.placement.absorbed) {
      positions.push_back(context_.index.PositionOf(*node));
    }
    graph::RemoveNodes(std::move(positions), graph_);
  }

  QuantizeContext& context_;
  onnx::GraphProto* graph_;
  absl::flat_hash_map<std::string, OutputSlot> producers_;
};

}  // namespace

absl::Status InsertQdq(QuantizeContext& context) { return Inserter(context).Run(); }

}  // namespace gq::quantize
