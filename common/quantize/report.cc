#include "common/quantize/report.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {
namespace {

using nlohmann::json;

json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string_view ClassName(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::kActivation:
      return "activation";
    case TensorClass::kWeight:
      return "weight";
    case TensorClass::kBias:
      return "bias";
  }
  return "";
}

json ValuesOf(const InitializerMap& initializers, const std::string& name) {
  json values = json::array();
  const onnx::TensorProto* tensor = initializers.Find(name);
  if (tensor == nullptr) return values;
  const auto data = initializers.model().Data(*tensor);
  for (int64_t i = 0; data.ok() && i < data->size(); ++i) values.push_back(Number(data->At(i)));
  return values;
}

// A constant that Conv, Gemm and their kin add is called a bias whatever its form.
bool IsBias(const QuantizeContext& context, const std::string& name) {
  for (const auto& use : context.index.Uses(name)) {
    const auto& type = context.index.node(use.node).op_type();
    if (use.input == 2 && (type == "Conv" || type == "ConvTranspose" || type == "Gemm"))
      return true;
  }
  return false;
}

json Tensors(QuantizeContext& context) {
  const InitializerMap initializers(context.model);
  json list = json::array();
  for (const auto& tensor : context.tensors) {
    json entry;
    entry["name"] = tensor.name;
    entry["class"] = tensor.tensor_class == TensorClass::kWeight && IsBias(context, tensor.name)
                         ? "bias"
                         : ClassName(tensor.tensor_class);
    const onnx::NodeProto* producer = context.index.Producer(tensor.name);
    const auto uses = context.index.Uses(tensor.name);
    if (producer != nullptr) {
      entry["op"] = producer->op_type();
    } else if (!uses.empty()) {
      entry["op"] = context.index.node(uses[0].node).op_type();
    }
    entry["scale"] = ValuesOf(initializers, tensor.scale_name);
    entry["zero_point"] = ValuesOf(initializers, tensor.zero_point_name);
    entry["dtype"] = graph::DTypeName(tensor.params[0].type);
    if (tensor.axis >= 0) entry["axis"] = tensor.axis;
    const float scale = initializers.Scale(tensor.scale_name);
    if (tensor.axis < 0 && !IsReducedFloat(tensor.params[0].type) && IsPowerOfTwo(scale)) {
      entry["pos"] = PositionOfScale(scale);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::string PrecisionOf(const QuantizeContext& context, const onnx::NodeProto& node) {
  for (const auto& tensor : node.output()) {
    if (const auto* planned = context.FindTensor(tensor)) {
      return std::string(graph::DTypeName(planned->params[0].type));
    }
  }
  for (const auto& tensor : node.input()) {
    if (const auto* planned = context.FindTensor(tensor)) {
      return std::string(graph::DTypeName(planned->params[0].type));
    }
  }
  return "float32";
}

// Bits of a weight and of an activation that the node reads.
struct Bits {
  int weights = 32;
  int activations = 32;
};

Bits BitsOf(const QuantizeContext& context, const onnx::NodeProto& node, bool stays_float) {
  if (stays_float) {
    const int bits = context.config.float_precision.empty() ? 32 : 16;
    return {bits, bits};
  }
  Bits bits;
  const bool dynamic = context.config.dynamic != DynamicForm::kNone;
  if (dynamic) {
    const bool blocks = context.config.dynamic == DynamicForm::kInt4Blocks &&
                        !graph::IsOp(node, "Gather") && !context.placement.notes.contains(&node);
    return {blocks ? 4 : 8, 8};
  }
  bool activation_seen = false, weight_seen = false;
  for (const auto& tensor : node.input()) {
    const auto* planned = context.FindTensor(tensor);
    if (planned == nullptr || planned->params.empty()) continue;
    const bool constant = context.index.IsInitializer(tensor);
    bool& seen = constant ? weight_seen : activation_seen;
    if (seen) continue;
    seen = true;
    ElementType type = planned->params[0].type;
    // Another layer's own type ends at the pair between the two.
    if (!constant && context.settings.dual_pairs && context.targets.Override(tensor) != nullptr &&
        !context.targets.mixed_nodes.contains(node.name())) {
      type = context.settings.activation_type;
    }
    (constant ? bits.weights : bits.activations) = graph::BitsPerElement(type);
  }
  // What moves values about reads a tensor that its producer's pair has rounded.
  if (!activation_seen) {
    for (const auto& tensor : node.output()) {
      const auto* planned = context.FindTensor(tensor);
      if (planned == nullptr || planned->params.empty()) continue;
      bits.activations = graph::BitsPerElement(planned->params[0].type);
      break;
    }
  }
  if (!weight_seen) bits.weights = bits.activations;
  return bits;
}

struct Layers {
  json list = json::array();
  std::map<std::string, int> quantized;
  std::map<std::string, int> kept_float;
};

Layers LayersOf(const QuantizeContext& context) {
  absl::flat_hash_map<const onnx::NodeProto*, std::string> reasons;
  for (const auto& entry : context.placement.unquantized) reasons[entry.node] = entry.reason;
  Layers layers;
  for (const auto& node : context.index.graph().node()) {
    std::string precision =
        context.config.dynamic == DynamicForm::kNone || context.placement.quantized.contains(&node)
            ? PrecisionOf(context, node)
            : "float32";
    const auto reason = reasons.find(&node);
    const bool stays_float = reason != reasons.end() || precision == "float32";
    if (stays_float) precision = "float32";
    ++(stays_float ? layers.kept_float : layers.quantized)[node.op_type()];
    const Bits bits = BitsOf(context, node, stays_float);
    layers.list.push_back(
        {{"node", node.name()},
         {"op", node.op_type()},
         {"precision", precision},
         {"weight_bits", bits.weights},
         {"activation_bits", bits.activations},
         {"reason", reason != reasons.end()                   ? reason->second
                    : context.placement.notes.contains(&node) ? context.placement.notes.at(&node)
                    : context.targets.mixed_nodes.contains(node.name())
                        ? "named by the configuration"
                    : stays_float ? "no float tensors"
                                  : "scheme"},
         {"macs", graph::Macs(node, context.index)}});
  }
  return layers;
}

int64_t InitializerBytes(const graph::Model& model) {
  int64_t bytes = 0;
  for (const auto& tensor : model.graph().initializer()) bytes += model.DataBytes(tensor);
  return bytes;
}

int64_t FileBytes(const graph::Model& model) {
  int64_t bytes = static_cast<int64_t>(model.proto().ByteSizeLong());
  for (const auto& [key, buffer] : model.store().buffers()) {
    bytes += static_cast<int64_t>(buffer.bytes.size());
  }
  return bytes;
}

double Ratio(int64_t before, int64_t after) {
  return after == 0 ? 0 : static_cast<double>(before) / static_cast<double>(after);
}

json Sizes(QuantizeContext& context) {
  const InitializerMap initializers(context.model);
  const auto bytes_of = [&](const std::string& name) {
    const onnx::TensorProto* tensor = initializers.Find(name);
    return tensor == nullptr ? int64_t{0} : context.model.DataBytes(*tensor);
  };
  int64_t float_weights = 0;
  int64_t integers = 0;
  int64_t parameters = 0;
  for (const auto& tensor : context.tensors) {
    if (tensor.tensor_class == TensorClass::kActivation || tensor.data_name.empty()) continue;
    float_weights += static_cast<int64_t>(tensor.values.bytes().size());
    integers += bytes_of(tensor.data_name);
    parameters += bytes_of(tensor.scale_name) + bytes_of(tensor.zero_point_name);
  }
  json sizes;
  const int64_t before = FileBytes(context.float_model);
  const int64_t after = FileBytes(context.model);
  sizes["float_bytes"] = before;
  sizes["quantized_bytes"] = after;
  sizes["ratio_file"] = Ratio(before, after);
  sizes["ratio_weights"] = Ratio(float_weights, integers);
  sizes["ratio_weights_with_parameters"] = Ratio(float_weights, integers + parameters);
  sizes["initializer_bytes"] = InitializerBytes(context.model);
  if (Ratio(before, after) >= 3) return sizes;

  constexpr size_t kListed = 10;
  std::vector<std::pair<int64_t, std::string>> kept;
  for (const auto& tensor : context.model.graph().initializer()) {
    if (tensor.data_type() == onnx::TensorProto::FLOAT) {
      kept.emplace_back(context.model.DataBytes(tensor), tensor.name());
    }
  }
  std::sort(kept.rbegin(), kept.rend());
  sizes["largest_float"] = json::array();
  for (size_t i = 0; i < kept.size() && i < kListed; ++i) {
    sizes["largest_float"].push_back({{"name", kept[i].second}, {"bytes", kept[i].first}});
  }
  return sizes;
}

std::vector<std::string> Strategy(const QuantizeContext& context) {
  if (context.config.dynamic != DynamicForm::kNone) {
    return {"Weights are quantized now, activation ranges are found at run time"};
  }
  std::vector<std::string> sentences = {base::StrCat("Scheme ", context.config.scheme, " on the ",
                                                     PathName(context.settings.path), " path")};
  if (!context.targets.excluded.empty()) {
    sentences.push_back(base::StrCat(context.targets.excluded.size(), " nodes stay float"));
  }
  if (!context.targets.mixed_nodes.empty()) {
    sentences.push_back(
        base::StrCat(context.targets.mixed_nodes.size(), " nodes have a precision of their own"));
  }
  return sentences;
}

}  // namespace

nlohmann::json MakeReport(QuantizeContext& context, const calibrate::CalibrationTable& table,
                          const PhaseSeconds& seconds) {
  json report;
  report["scheme"] = context.config.scheme;
  report["engine"] = "native";
  report["compatibility"] = context.settings.quark ? "quark" : "default";
  report["path"] = PathName(context.settings.path);
  report["strategy"] = Strategy(context);
  report["config_digest"] = context.config_digest;
  if (context.settings.needs_calibration && context.config.dynamic == DynamicForm::kNone) {
    report["calibration"] = {
        {"method", calibrate::MethodName(context.settings.calibration.method)},
        {"samples", table.samples},
        {"data_digest", table.data_digest},
        {"random", table.random_data},
        {"seconds", seconds.contains("calibration") ? seconds.at("calibration") : 0.0}};
  }
  report["tensors"] = Tensors(context);
  Layers layers = LayersOf(context);
  report["layers"] = std::move(layers.list);
  report["counts"] = {{"quantized", layers.quantized}, {"float", layers.kept_float}};
  report["sizes"] = Sizes(context);
  if (report["sizes"]["quantized_bytes"] >= report["sizes"]["float_bytes"]) {
    context.Warn("The quantized model is not smaller than the float model");
  }
  report["alignment"] = json::array();
  for (const auto& change : context.alignment) {
    report["alignment"].push_back({{"rule", change.rule},
                                   {"node", change.node},
                                   {"scale", change.scale},
                                   {"before", change.before},
                                   {"after", change.after}});
  }
  report["passes"] = json::array();
  for (const auto& pass : context.passes) {
    report["passes"].push_back({{"name", pass.name},
                                {"summary", pass.summary},
                                {"changed", pass.changed},
                                {"details", pass.details}});
  }
  report["warnings"] = context.warnings;
  report["seconds"] = seconds;
  return report;
}

}  // namespace gq::quantize
