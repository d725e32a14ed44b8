#include "common/compile/vaip_patch.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/shape_inference.h"
#include "common/graph/tensor_view.h"

namespace gq::compile {
namespace {

using base::StrCat;
using onnx::TensorProto;

constexpr std::string_view kQuark = "com.amd.quark";
constexpr std::string_view kMicrosoft = "com.microsoft";
// Versions of the default domain: from the first on it has per-channel Q/DQ, from the second on
// with 16 bit integers.
constexpr int64_t kQdqOpset = 13;
constexpr int64_t kInt16Opset = 21;
constexpr int kRounds = 10;

bool IsQdq(const onnx::NodeProto& node) {
  return node.op_type() == "QuantizeLinear" || node.op_type() == "DequantizeLinear";
}
bool IsExtendedQdq(const onnx::NodeProto& node) {
  return node.domain() == kQuark && (node.op_type() == "ExtendedQuantizeLinear" ||
                                     node.op_type() == "ExtendedDequantizeLinear");
}
bool IsDequantize(const onnx::NodeProto& node) {
  return node.op_type().find("Dequantize") != std::string::npos;
}

// The name the vendor's attribute has for a type.
std::string_view TypeName(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT:
      return "float32";
    case TensorProto::UINT8:
      return "uint8";
    case TensorProto::INT8:
      return "int8";
    case TensorProto::INT16:
      return "int16";
    case TensorProto::UINT16:
      return "uint16";
    case TensorProto::INT32:
      return "int32";
    case TensorProto::INT64:
      return "int64";
    case TensorProto::FLOAT16:
      return "float16";
    case TensorProto::DOUBLE:
      return "double";
    case TensorProto::UINT32:
      return "uint32";
    case TensorProto::UINT64:
      return "uint64";
    case TensorProto::BFLOAT16:
      return "bfloat16";
    default:
      return "";
  }
}

uint16_t ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const int exponent = static_cast<int>((bits >> 23) & 0xFFU) - 127 + 15;
  if (exponent <= 0) return sign;
  if (exponent >= 31) return static_cast<uint16_t>(sign | 0x7C00U);
  return static_cast<uint16_t>(sign | (exponent << 10) | ((bits >> 13) & 0x3FFU));
}

class VaipPatcher {
 public:
  VaipPatcher(bool fp16, graph::Model& model) : fp16_(fp16), model_(model) {}

  absl::StatusOr<VaipPatch> Run() {
    Retag();
    GQ_RETURN_IF_ERROR(ConvertZeroPoints());
    GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, &model_));
    InferBehindQuark();
    AddAttributes();
    return std::move(patch_);
  }

 private:
  int32_t TypeOf(const std::string& name) const {
    for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
      if (tensor.name() == name) return tensor.data_type();
    }
    const onnx::TypeProto_Tensor* type = FindType(name);
    return type != nullptr ? type->elem_type() : static_cast<int32_t>(TensorProto::UNDEFINED);
  }

  const onnx::TypeProto_Tensor* FindType(const std::string& name) const {
    const onnx::GraphProto& graph = model_.graph();
    for (const auto* list : {&graph.value_info(), &graph.input(), &graph.output()}) {
      for (const onnx::ValueInfoProto& value : *list) {
        if (value.name() == name && value.type().has_tensor_type()) {
          return &value.type().tensor_type();
        }
      }
    }
    return nullptr;
  }

  std::optional<std::vector<int64_t>> ShapeOf(const std::string& name) const {
    for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
      if (tensor.name() == name) {
        return std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end());
      }
    }
    const onnx::TypeProto_Tensor* type = FindType(name);
    if (type == nullptr || !type->has_shape()) return std::nullopt;
    std::vector<int64_t> shape;
    for (const auto& dim : type->shape().dim()) {
      if (!dim.has_dim_value()) return std::nullopt;
      shape.push_back(dim.dim_value());
    }
    return shape;
  }

  void Retag() {
    const int64_t opset = model_.Opset();
    std::set<std::string> left;
    for (onnx::NodeProto& node : *model_.mutable_graph()->mutable_node()) {
      if (node.domain() != kMicrosoft || !IsQdq(node)) continue;
      if (node.input_size() < 2 || node.input_size() > 3) continue;
      int32_t type = node.input_size() == 3 ? TypeOf(node.input(2)) : TensorProto::UINT8;
      if (type == TensorProto::UNDEFINED) type = TensorProto::UINT8;
      const bool narrow = type == TensorProto::UINT8 || type == TensorProto::INT8 ||
                          (type == TensorProto::INT32 && node.op_type() == "DequantizeLinear");
      if (opset < kQdqOpset || (!narrow && opset < kInt16Opset)) {
        left.insert(std::string(TypeName(type)));
        continue;
      }
      node.clear_domain();
      // Both domains mean axis 1 where none is given; per channel it is written down all the same.
      const auto scale = ShapeOf(node.input(1));
      if (scale && scale->size() == 1 && (*scale)[0] > 1 &&
          graph::FindAttribute(node, "axis") == nullptr) {
        onnx::AttributeProto* axis = node.add_attribute();
        axis->set_name("axis");
        axis->set_type(onnx::AttributeProto::INT);
        axis->set_i(1);
      }
      ++patch_.retagged;
    }
    for (const std::string& type : left) {
      patch_.warnings.push_back(StrCat("Q/DQ nodes of com.microsoft with ", type,
                                       " stay there: opset ", opset,
                                       " of the default domain does not know them"));
    }
    DropUnusedImport(kMicrosoft);
  }

  void DropUnusedImport(std::string_view domain) {
    const auto& nodes = model_.graph().node();
    if (std::any_of(nodes.begin(), nodes.end(),
                    [&](const onnx::NodeProto& node) { return node.domain() == domain; })) {
      return;
    }
    auto* imports = model_.mutable_proto()->mutable_opset_import();
    imports->erase(std::remove_if(imports->begin(), imports->end(),
                                  [&](const auto& entry) { return entry.domain() == domain; }),
                   imports->end());
  }

  absl::Status ConvertZeroPoints() {
    std::set<std::string> names;
    for (const onnx::NodeProto& node : model_.graph().node()) {
      if (IsExtendedQdq(node) && node.input_size() > 2) names.insert(node.input(2));
    }
    for (onnx::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer()) {
      if (names.contains(tensor.name())) GQ_RETURN_IF_ERROR(ConvertZeroPoint(tensor));
    }
    for (onnx::NodeProto& node : *model_.mutable_graph()->mutable_node()) {
      if (node.op_type() != "Constant" || node.output_size() != 1 ||
          !names.contains(node.output(0))) {
        continue;
      }
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.name() == "value") {
          GQ_RETURN_IF_ERROR(ConvertZeroPoint(*attribute.mutable_t()));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status ConvertZeroPoint(onnx::TensorProto& tensor) {
    if (tensor.data_type() != TensorProto::FLOAT) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const graph::TensorView view, model_.Data(tensor));
    GQ_ASSIGN_OR_RETURN(const std::vector<float> values, view.ToFloats());
    onnx::TensorProto converted;
    converted.set_name(tensor.name());
    *converted.mutable_dims() = tensor.dims();
    converted.set_data_type(fp16_ ? TensorProto::FLOAT16 : TensorProto::BFLOAT16);
    for (const float value : values) {
      converted.add_int32_data(fp16_ ? ToFloat16(value)
                                     : static_cast<int32_t>(std::bit_cast<uint32_t>(value) >> 16));
    }
    tensor = std::move(converted);
    ++patch_.zero_points;
    return absl::OkStatus();
  }

  // The type that a node of com.amd.quark gives: the scale's behind a dequantize, the zero point's
  // behind a quantize, the input's behind anything else.
  int32_t OutputType(const onnx::NodeProto& node) const {
    const bool quantizes = node.op_type().find("uantize") != std::string::npos;
    const int from = !quantizes ? 0 : (IsDequantize(node) ? 1 : 2);
    if (node.input_size() <= from || node.input(from).empty()) {
      return IsDequantize(node) || !quantizes ? TensorProto::FLOAT : TensorProto::UINT8;
    }
    return TypeOf(node.input(from));
  }

  void InferBehindQuark() {
    for (int round = 0; round < kRounds; ++round) {
      bool any = false;
      for (const onnx::NodeProto& node : model_.graph().node()) {
        if (node.domain() != kQuark || node.input_size() == 0 || node.output_size() == 0) continue;
        if (ShapeOf(node.output(0))) continue;
        const auto shape = ShapeOf(node.input(0));
        if (!shape) continue;
        SetValue(node.output(0), OutputType(node), *shape);
        any = true;
      }
      if (!any || !graph::InferShapes(graph::InferenceMode::kLenient, &model_).ok()) return;
    }
  }

  void SetValue(const std::string& name, int32_t type, const std::vector<int64_t>& shape) {
    onnx::GraphProto* graph = model_.mutable_graph();
    onnx::ValueInfoProto* value = nullptr;
    for (auto* list : {graph->mutable_value_info(), graph->mutable_output()}) {
      for (onnx::ValueInfoProto& entry : *list) {
        if (entry.name() == name) value = &entry;
      }
    }
    if (value == nullptr) {
      value = graph->add_value_info();
      value->set_name(name);
    }
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->clear_shape();
    for (const int64_t dim : shape) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
  }

  void AddAttributes() {
    int without_shape = 0;
    for (onnx::NodeProto& node : *model_.mutable_graph()->mutable_node()) {
      if (node.domain() != kQuark || node.output_size() == 0) continue;
      if (graph::FindAttribute(node, "shape") != nullptr) continue;
      const auto shape = ShapeOf(node.output(0));
      const std::string_view type = TypeName(OutputType(node));
      if (!shape || type.empty()) {
        ++without_shape;
        continue;
      }
      onnx::AttributeProto* attribute = node.add_attribute();
      attribute->set_name("shape");
      attribute->set_type(onnx::AttributeProto::INTS);
      for (const int64_t dim : *shape) attribute->add_ints(dim);
      attribute = node.add_attribute();
      attribute->set_name("data_type");
      attribute->set_type(onnx::AttributeProto::STRING);
      attribute->set_s(std::string(type));
      ++patch_.attributed;
    }
    if (without_shape > 0) {
      patch_.warnings.push_back(StrCat(without_shape,
                                       " nodes of com.amd.quark have no known "
                                       "shape; the compiler may refuse them"));
    }
  }

  const bool fp16_;
  graph::Model& model_;
  VaipPatch patch_;
};

}  // namespace

std::string VaipPatch::Describe() const {
  return StrCat(retagged, " Q/DQ nodes went to the default domain, ", zero_points,
                " zero points got their 16 bit type, ", attributed,
                " nodes of com.amd.quark got shape and data_type");
}

bool NeedsVaipPatch(const graph::Model& model) {
  const auto& imports = model.proto().opset_import();
  return std::any_of(imports.begin(), imports.end(), [](const auto& entry) {
    return entry.domain() == kQuark || entry.domain() == kMicrosoft;
  });
}

absl::StatusOr<VaipPatch> PatchForVaip(bool fp16, graph::Model& model) {
  if (!NeedsVaipPatch(model)) return VaipPatch();
  return VaipPatcher(fp16, model).Run();
}

}  // namespace gq::compile
