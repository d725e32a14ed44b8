#include "common/quantize/recover/scaling.h"

#include <set>

#include "common/base/text.h"
#include "common/graph/edits.h"

namespace gq::quantize {

using graph::AttributeFloat;
using graph::AttributeInt;
using graph::AttributeString;
using graph::IsOp;

bool ConstantReader::IsFloat(std::string_view tensor) const {
  const onnx::TensorProto* initializer = index_.Initializer(tensor);
  return initializer != nullptr && initializer->data_type() == onnx::TensorProto::FLOAT;
}

std::optional<double> ConstantReader::Number(std::string_view tensor) const {
  if (!IsFloat(tensor)) return std::nullopt;
  const auto view = model_.Data(*index_.Initializer(tensor));
  if (!view.ok() || view->size() != 1) return std::nullopt;
  return view->At(0);
}

std::vector<float> ConstantReader::Values(std::string_view tensor) const {
  if (!IsFloat(tensor)) return {};
  const auto view = model_.Data(*index_.Initializer(tensor));
  if (!view.ok()) return {};
  auto values = view->ToFloats();
  return values.ok() ? *std::move(values) : std::vector<float>{};
}

bool IsLinearLayer(const onnx::NodeProto& node, const ConstantReader& constants) {
  if (node.input_size() < 2 || !constants.IsFloat(node.input(1)) ||
      constants.index().IsInitializer(node.input(0))) {
    return false;
  }
  if (IsOp(node, "Gemm")) {
    return AttributeFloat(node, "alpha", 1) == 1 && AttributeFloat(node, "beta", 1) == 1 &&
           AttributeInt(node, "transA", 0) == 0;
  }
  return IsOp(node, "Conv") || IsOp(node, "ConvTranspose") || IsOp(node, "MatMul");
}

bool PassesFactors(const onnx::NodeProto& node, double factor) {
  static const std::set<std::string> kLinear = {
      "Reshape", "Transpose", "Squeeze", "Unsqueeze",         "Flatten",
      "Slice",   "Identity",  "Expand",  "GlobalAveragePool", "AveragePool"};
  static const std::set<std::string> kMonotone = {"Relu", "LeakyRelu", "MaxPool", "PRelu"};
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  if (kLinear.contains(node.op_type())) return true;
  if (node.op_type() == "Pad") {
    return AttributeString(node, "mode", "constant") != "constant" ||
           graph::InputName(node, 2).empty();
  }
  return factor > 0 && kMonotone.contains(node.op_type());
}

void ReplaceConstant(int node, int input, const std::vector<float>& values, graph::Model* model) {
  onnx::NodeProto* reader = model->mutable_graph()->mutable_node(node);
  const std::string name = reader->input(input);
  int uses = 0;
  onnx::TensorProto* tensor = nullptr;
  {
    const graph::GraphIndex index(model->graph());
    uses = static_cast<int>(index.Uses(name).size()) + (index.IsGraphOutput(name) ? 1 : 0);
  }
  for (auto& initializer : *model->mutable_graph()->mutable_initializer()) {
    if (initializer.name() == name) tensor = &initializer;
  }
  if (tensor == nullptr) return;
  const std::vector<int64_t> dims(tensor->dims().begin(), tensor->dims().end());
  const graph::TensorView data = graph::TensorView::Of<float>(dims, values);
  if (uses <= 1) {
    model->SetData(data, tensor);
    return;
  }
  const std::string copy = graph::NameScope(model->graph()).Unique(base::StrCat(name, "_scaled"));
  model->AddInitializer(copy, data);
  reader->set_input(input, copy);
}

void ScaleConstants(const std::vector<ConstantEdit>& edits, graph::Model* model) {
  for (const ConstantEdit& edit : edits) {
    std::vector<float> values;
    {
      const graph::GraphIndex index(model->graph());
      values = ConstantReader(*model, index).Values(index.node(edit.node).input(edit.input));
    }
    for (float& value : values) {
      value = static_cast<float>(static_cast<double>(value) * edit.factor);
    }
    ReplaceConstant(edit.node, edit.input, values, model);
  }
}

}  // namespace gq::quantize
