#include "common/quantize/dpu_simulation.h"

#include <cmath>
#include <optional>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/operator_rules.h"
#include "common/quantize/qdq_nodes.h"

namespace gq::quantize {
namespace {

using Shape = std::vector<int64_t>;

class Simulator {
 public:
  explicit Simulator(QuantizeContext& context)
      : context_(context), graph_(context.model.mutable_graph()) {}

  absl::StatusOr<int> Run() {
    const DpuSimulation& wanted = context_.settings.simulation;
    if (wanted.leaky_relu) ForEach({"LeakyRelu"}, [this](auto* node) { LeakyRelu(node); });
    if (wanted.sigmoid_to_hard_sigmoid) Sigmoids();
    if (wanted.hard_sigmoid) HardSigmoids();
    if (wanted.average_pool) {
      ForEach({"AveragePool", "GlobalAveragePool"}, [this](auto* node) { AveragePool(node); });
    }
    if (wanted.reduce_mean) ForEach({"ReduceMean"}, [this](auto* node) { ReduceMean(node); });
    if (!context_.settings.quark) GQ_RETURN_IF_ERROR(graph::SortTopologically(graph_));
    return changed_;
  }

 private:
  bool Selected(const onnx::NodeProto& node) const {
    return IsSelected(node, context_.settings, context_.targets);
  }

  template <typename Visitor>
  void ForEach(std::initializer_list<std::string_view> types, Visitor visit) {
    const int count = graph_->node_size();
    for (int i = 0; i < count; ++i) {
      onnx::NodeProto* node = graph_->mutable_node(i);
      for (const auto type : types) {
        if (node->op_type() == type && Selected(*node)) visit(node);
      }
    }
  }

  void LeakyRelu(onnx::NodeProto* node) {
    const bool given = graph::FindAttribute(*node, "alpha") != nullptr;
    if (!given && context_.settings.quark) return;
    const float alpha = graph::AttributeFloat(*node, "alpha", 0.01f);
    if (given && LeakyReluSlope(alpha) == alpha) return;
    graph::SetAttribute("alpha", LeakyReluSlope(alpha), node);
    ++changed_;
  }

  // Quark appends the new nodes; where they stand matters to the look-ups of alignment.
  void Sigmoids() {
    std::vector<int> replaced;
    const int count = graph_->node_size();
    for (int i = 0; i < count; ++i) {
      onnx::NodeProto* node = graph_->mutable_node(i);
      if (node->op_type() != "Sigmoid" || !Selected(*node)) continue;
      if (context_.settings.quark) {
        onnx::NodeProto* added = graph_->add_node();
        *added = *graph_->mutable_node(i);
        node = added;
        replaced.push_back(i);
      }
      node->set_op_type("HardSigmoid");
      node->clear_attribute();
      graph::SetAttribute("alpha", 1.0f / 6.0f, node);
      ++changed_;
    }
    graph::RemoveNodes(std::move(replaced), graph_);
  }

  void HardSigmoids() {
    const int count = graph_->node_size();
    for (int i = 0; i < count; ++i) {
      onnx::NodeProto* node = graph_->mutable_node(i);
      if (node->op_type() != "HardSigmoid" || !IsNpuHardSigmoid(*node)) continue;
      if (!node->name().empty() && context_.targets.excluded.contains(node->name())) continue;
      InsertFactor(node, kHardSigmoidFactor);
    }
  }

  void AveragePool(onnx::NodeProto* node) {
    Shape kernel;
    if (node->op_type() == "GlobalAveragePool") {
      const auto shape = InputShape(*node);
      if (!shape || shape->empty()) {
        context_.Warn(base::StrCat("The input shape of '", node->name(),
                                   "' is not known; its average is not brought to the NPU's"));
        return;
      }
      if (shape->size() == 4) kernel = {(*shape)[2], (*shape)[3]};
    } else {
      kernel = graph::AttributeInts(*node, "kernel_shape");
    }
    if (kernel.size() == 2 && kernel[0] == kernel[1] && kernel[0] > 0) {
      InsertFactor(node, AveragePoolFactor(kernel[0], kernel[1]));
      return;
    }
    context_.Warn(base::StrCat("'", node->name(),
                               "' averages over a window that is not square; its result is not "
                               "brought to the NPU's"));
  }

  void ReduceMean(onnx::NodeProto* node) {
    const auto shape = InputShape(*node);
    std::optional<Shape> axes;
    if (node->input_size() == 1) {
      if (graph::FindAttribute(*node, "axes") != nullptr) {
        axes = graph::AttributeInts(*node, "axes");
      }
    } else if (const auto* initializer = context_.model.FindInitializer(node->input(1))) {
      const auto data = context_.model.Data(*initializer);
      if (data.ok()) {
        const auto values = data->ToInts();
        if (values.ok()) axes = *values;
      }
    }
    int64_t elements = 1;
    bool known = shape && axes && !shape->empty();
    for (size_t i = 0; known && i < axes->size(); ++i) {
      const int64_t rank = static_cast<int64_t>(shape->size());
      const int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
      known = axis >= 0 && axis < rank;
      if (known) elements *= (*shape)[axis];
    }
    if (known && elements > 0) {
      InsertFactor(node, MeanFactor(elements));
    } else {
      context_.Warn(base::StrCat("The axes or the input shape of '", node->name(),
                                 "' are not known; its mean is not brought to the NPU's"));
    }
  }

  // Shape of the node's data input. Quark knows value_info only, neither graph inputs nor outputs.
  std::optional<Shape> InputShape(const onnx::NodeProto& node) const {
    if (!context_.settings.quark) {
      const onnx::NodeProto* original = context_.index.FindNode(node.name());
      if (original == nullptr || original->input_size() == 0) return std::nullopt;
      return context_.index.StaticShape(original->input(0));
    }
    std::string name = node.input(0);
    if (const onnx::NodeProto* dequantize = ProducerOf(name);
        dequantize != nullptr && dequantize->op_type() == "DequantizeLinear") {
      name = dequantize->input(0);
      if (const onnx::NodeProto* quantize = ProducerOf(name)) name = quantize->input(0);
    }
    for (const auto& info : graph_->value_info()) {
      if (info.name() != name) continue;
      Shape shape;
      for (const auto& dim : info.type().tensor_type().shape().dim()) {
        shape.push_back(dim.dim_value());
      }
      return shape;
    }
    return std::nullopt;
  }

  const onnx::NodeProto* ProducerOf(std::string_view tensor) const {
    for (const auto& node : graph_->node()) {
      if (node.output_size() > 0 && node.output(0) == tensor) return &node;
    }
    return nullptr;
  }

  // node -> Mul(constant) -> what read the node.
  void InsertFactor(onnx::NodeProto* node, double factor) {
    const std::string output = node->output(0);
    const std::string scaled = context_.names.Unique(base::StrCat(output, "_Mul"));
    context_.renamed[scaled] = context_.OriginalName(output);
    const std::string constant = context_.names.Unique(base::StrCat(output, "_Scale"));

    onnx::NodeProto* value = graph_->add_node();
    *value = graph::MakeNode("Constant", "", {}, {constant});
    onnx::AttributeProto* attribute = value->add_attribute();
    attribute->set_name("value");
    attribute->set_type(onnx::AttributeProto::TENSOR);
    attribute->mutable_t()->set_name("scale");
    attribute->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
    attribute->mutable_t()->add_float_data(static_cast<float>(factor));

    *graph_->add_node() = graph::MakeNode("Mul", scaled, {scaled, constant}, {output});
    if (node->name().empty()) node->set_name(output);
    *node->mutable_output(0) = scaled;
    ++changed_;
  }

  QuantizeContext& context_;
  onnx::GraphProto* graph_;
  int changed_ = 0;
};

}  // namespace

double MeanFactor(int64_t elements) {
  const auto count = static_cast<double>(elements);
  const int exponents = 7 + static_cast<int>(std::ceil(std::log2(count)));
  double least = 0;
  double best = 0;
  for (int n = 0; n < exponents; ++n) {
    const double power = std::ldexp(1.0, n);
    const double numerator = std::nearbyint(power / count);
    const double difference = std::fabs(numerator / power - 1 / count);
    if (n > 0 && !(difference < least)) continue;
    least = difference;
    best = numerator / power * count;
  }
  return best;
}

double AveragePoolFactor(int64_t height, int64_t width) {
  if (height > 255 || width > 255) return 1;
  if (height == width) {
    switch (height) {
      case 3:
        return 63.0 / 64.0;
      case 5:
        return 250.0 / 256.0;
      case 6:
        return 252.0 / 256.0;
      case 7:
        return 1029.0 / 1024.0;
      case 14:
        return 4116.0 / 4096.0;
      default:
        break;
    }
  }
  return MeanFactor(height * width);
}

float LeakyReluSlope(float alpha) {
  return static_cast<float>(std::nearbyint(static_cast<double>(alpha) * 256) / 256);
}

bool SimulateDpu::IsOn(const Settings& settings) const {
  const DpuSimulation& wanted = settings.simulation;
  return wanted.leaky_relu || wanted.sigmoid_to_hard_sigmoid || wanted.hard_sigmoid ||
         wanted.average_pool || wanted.reduce_mean;
}

absl::StatusOr<int> SimulateDpu::Run(QuantizeContext& context) const {
  return Simulator(context).Run();
}

}  // namespace gq::quantize
