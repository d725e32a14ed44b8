#include "common/graph/opset_steps.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;
using onnx::NodeProto;

absl::Status Unsupported(const NodeProto& node, std::string_view why) {
  return base::MakeError(Reason::kModelUnsupported,
                         StrCat(Describe(node), " cannot be converted to a newer opset: ", why),
                         "Export the model with opset 17 or newer.");
}

// Sets input `position`, leaving out the ones before it that are not given.
void SetInput(int position, std::string name, NodeProto* node) {
  while (node->input_size() <= position) node->add_input("");
  node->set_input(position, std::move(name));
}

void DropTrailingEmptyInputs(NodeProto* node) {
  while (node->input_size() > 0 && node->input(node->input_size() - 1).empty()) {
    node->mutable_input()->RemoveLast();
  }
}

absl::Status IntsToInput(std::string_view attribute, int position, NodeProto* node,
                         OpsetRewrite* context) {
  if (FindAttribute(*node, attribute) == nullptr) return absl::OkStatus();
  const auto values = AttributeInts(*node, attribute);
  SetInput(position, context->Constant(StrCat(node->output(0), "_", attribute), values), node);
  RemoveAttribute(attribute, node);
  return absl::OkStatus();
}

absl::Status AxesToInput(NodeProto* node, OpsetRewrite* context) {
  return IntsToInput("axes", 1, node, context);
}

absl::Status SplitToInput(NodeProto* node, OpsetRewrite* context) {
  return IntsToInput("split", 1, node, context);
}

absl::Status BatchNormSpatial(NodeProto* node, OpsetRewrite*) {
  if (AttributeInt(*node, "spatial", 1) != 1) {
    return Unsupported(*node, "spatial = 0 has no equivalent");
  }
  RemoveAttribute("spatial", node);
  return absl::OkStatus();
}

absl::Status BatchNormOutputs(NodeProto* node, OpsetRewrite* context) {
  for (int i = 1; i < node->output_size(); ++i) {
    if (!node->output(i).empty() && (!context->shapes().Uses(node->output(i)).empty() ||
                                     context->shapes().IsGraphOutput(node->output(i)))) {
      return Unsupported(*node, "its training outputs are used");
    }
  }
  while (node->output_size() > 1) node->mutable_output()->RemoveLast();
  return absl::OkStatus();
}

absl::Status ScanBatch(NodeProto* node, OpsetRewrite*) {
  return Unsupported(*node, "Scan of opset 8 has a batch axis");
}

absl::Status UpsampleScales(NodeProto* node, OpsetRewrite* context) {
  const auto* scales = FindAttribute(*node, "scales");
  if (scales == nullptr) return absl::OkStatus();
  std::vector<float> values(scales->floats().begin(), scales->floats().end());
  SetInput(1,
           context->Constant(StrCat(node->output(0), "_scales"),
                             TensorView::Of<float>({static_cast<int64_t>(values.size())}, values)),
           node);
  RemoveAttribute("scales", node);
  return absl::OkStatus();
}

absl::Status UpsampleToResize(NodeProto* node, OpsetRewrite*) {
  node->set_op_type("Resize");
  // Upsample always took the lower neighbour, also where it made tensors smaller.
  SetAttribute("nearest_mode", std::string_view("floor"), node);
  return absl::OkStatus();
}

absl::Status SliceToInputs(NodeProto* node, OpsetRewrite* context) {
  GQ_RETURN_IF_ERROR(IntsToInput("starts", 1, node, context));
  GQ_RETURN_IF_ERROR(IntsToInput("ends", 2, node, context));
  return IntsToInput("axes", 3, node, context);
}

absl::Status TopKToInput(NodeProto* node, OpsetRewrite* context) {
  const int64_t k = AttributeInt(*node, "k", -1);
  if (k < 0) return Unsupported(*node, "it has no k");
  SetInput(1, context->Constant(StrCat(node->output(0), "_k"), std::vector<int64_t>{k}), node);
  RemoveAttribute("k", node);
  return absl::OkStatus();
}

absl::Status ClipToInputs(NodeProto* node, OpsetRewrite* context) {
  const int32_t type = context->shapes().ElemType(node->input(0));
  const int32_t dtype = type == 0 ? onnx::TensorProto::FLOAT : type;
  const auto move = [&](std::string_view name, int position) {
    const auto* attribute = FindAttribute(*node, name);
    if (attribute == nullptr) return;
    SetInput(position, context->Constant(StrCat(node->output(0), "_", name), attribute->f(), dtype),
             node);
    RemoveAttribute(name, node);
  };
  move("min", 1);
  move("max", 2);
  return absl::OkStatus();
}

absl::Status PadToInputs(NodeProto* node, OpsetRewrite* context) {
  const int32_t type = context->shapes().ElemType(node->input(0));
  const float value = AttributeFloat(*node, "value", 0.0f);
  GQ_RETURN_IF_ERROR(IntsToInput("pads", 1, node, context));
  if (AttributeString(*node, "mode", "constant") == "constant") {
    SetInput(2,
             context->Constant(StrCat(node->output(0), "_value"), value,
                               type == 0 ? onnx::TensorProto::FLOAT : type),
             node);
  }
  RemoveAttribute("value", node);
  return absl::OkStatus();
}

// All scales below one, as far as they are known constants.
bool MakesSmaller(const NodeProto& node, const OpsetRewrite& context) {
  const auto* scales = context.shapes().Initializer(InputName(node, 1));
  if (scales == nullptr) return false;
  const auto view = ReadInlineData(*scales);
  if (!view.ok()) return false;
  bool smaller = false;
  for (int64_t i = 0; i < view->size(); ++i) {
    if (view->At(i) > 1.0) return false;
    smaller = smaller || view->At(i) < 1.0;
  }
  return smaller;
}

absl::Status ResizeRoi(NodeProto* node, OpsetRewrite* context) {
  const std::string scales(InputName(*node, 1));
  const bool smaller = MakesSmaller(*node, *context);
  SetInput(1, "", node);
  SetInput(2, scales, node);
  SetAttribute("coordinate_transformation_mode", std::string_view("asymmetric"), node);
  if (AttributeString(*node, "mode", "nearest") == "nearest" &&
      FindAttribute(*node, "nearest_mode") == nullptr) {
    // Opset 10 does not say; runtimes round towards the input that covers the output element.
    SetAttribute("nearest_mode", std::string_view(smaller ? "ceil" : "floor"), node);
  }
  return absl::OkStatus();
}

absl::Status ScatterToElements(NodeProto* node, OpsetRewrite*) {
  node->set_op_type("ScatterElements");
  return absl::OkStatus();
}

absl::Status DropoutInference(NodeProto* node, OpsetRewrite*) {
  // Without its training input Dropout passes its input on, whatever the ratio.
  RemoveAttribute("ratio", node);
  return absl::OkStatus();
}

bool OnesFrom(const std::vector<int64_t>& shape, int64_t from) {
  for (size_t i = from; i < shape.size(); ++i) {
    if (shape[i] != 1) return false;
  }
  return true;
}

// Before opset 13 these flattened the input to two dimensions at `axis`.
absl::Status SoftmaxAxis(NodeProto* node, OpsetRewrite* context) {
  int64_t axis = AttributeInt(*node, "axis", 1);
  const int rank = context->Rank(node->input(0));
  if (axis < 0 && rank >= 0) axis += rank;
  if (axis == -1 || (rank >= 0 && axis == rank - 1)) {
    SetAttribute("axis", int64_t{axis}, node);
    return absl::OkStatus();
  }
  const auto shape = context->shapes().Shape(node->input(0));
  if (shape.has_value() && axis >= 0 && OnesFrom(*shape, axis + 1)) {
    SetAttribute("axis", int64_t{axis}, node);
    return absl::OkStatus();
  }
  const std::string output = node->output(0);
  auto* names = context->names();
  const std::string shape_name = names->Unique(StrCat(output, "_shape"));
  const std::string flat = names->Unique(StrCat(output, "_flat"));
  const std::string result = names->Unique(StrCat(output, "_flat_", node->op_type()));
  context->before.push_back(
      MakeNode("Shape", names->UniqueNode(shape_name + "_node"), {node->input(0)}, {shape_name}));
  NodeProto flatten =
      MakeNode("Flatten", names->UniqueNode(flat + "_node"), {node->input(0)}, {flat});
  SetAttribute("axis", int64_t{axis}, &flatten);
  context->before.push_back(std::move(flatten));
  node->set_input(0, flat);
  node->set_output(0, result);
  SetAttribute("axis", int64_t{1}, node);
  context->after.push_back(MakeNode("Reshape", names->UniqueNode(output + "_unflatten"),
                                    {result, shape_name}, {output}));
  return absl::OkStatus();
}

absl::Status RoiAlignMode(NodeProto* node, OpsetRewrite*) {
  if (FindAttribute(*node, "coordinate_transformation_mode") == nullptr) {
    SetAttribute("coordinate_transformation_mode", std::string_view("output_half_pixel"), node);
  }
  return absl::OkStatus();
}

absl::Status SplitOutputs(NodeProto* node, OpsetRewrite*) {
  if (InputName(*node, 1).empty()) {
    SetAttribute("num_outputs", static_cast<int64_t>(node->output_size()), node);
    DropTrailingEmptyInputs(node);
  }
  return absl::OkStatus();
}

absl::Status GridSampleMode(NodeProto* node, OpsetRewrite*) {
  const std::string mode = AttributeString(*node, "mode", "bilinear");
  if (mode == "bilinear") SetAttribute("mode", std::string_view("linear"), node);
  if (mode == "bicubic") SetAttribute("mode", std::string_view("cubic"), node);
  return absl::OkStatus();
}

absl::Status DftAxis(NodeProto* node, OpsetRewrite* context) {
  const int64_t axis = AttributeInt(*node, "axis", 1);
  const std::vector<int64_t> value{axis};
  SetInput(2,
           context->Constant(StrCat(node->output(0), "_axis"), TensorView::Of<int64_t>({}, value)),
           node);
  RemoveAttribute("axis", node);
  return absl::OkStatus();
}

constexpr OpsetStep kSteps[] = {
    {9, "BatchNormalization", "spatial went", BatchNormSpatial},
    {9, "Scan", "batch axis went", ScanBatch},
    {9, "Upsample", "scales became an input", UpsampleScales},
    {10, "Slice", "starts, ends and axes became inputs", SliceToInputs},
    {10, "TopK", "k became an input", TopKToInput},
    {10, "Upsample", "is called Resize", UpsampleToResize},
    {11, "Clip", "min and max became inputs", ClipToInputs},
    {11, "Pad", "pads and value became inputs", PadToInputs},
    {11, "Resize", "asymmetric coordinates became a choice", ResizeRoi},
    {11, "Scatter", "is called ScatterElements", ScatterToElements},
    {12, "Dropout", "ratio went", DropoutInference},
    {13, "Hardmax", "axis means one axis", SoftmaxAxis},
    {13, "LogSoftmax", "axis means one axis", SoftmaxAxis},
    {13, "Softmax", "axis means one axis", SoftmaxAxis},
    {13, "ReduceSum", "axes became an input", AxesToInput},
    {13, "Split", "split became an input", SplitToInput},
    {13, "Squeeze", "axes became an input", AxesToInput},
    {13, "Unsqueeze", "axes became an input", AxesToInput},
    {14, "BatchNormalization", "training outputs went", BatchNormOutputs},
    {16, "RoiAlign", "half pixels became a choice", RoiAlignMode},
    {18, "ReduceL1", "axes became an input", AxesToInput},
    {18, "ReduceL2", "axes became an input", AxesToInput},
    {18, "ReduceLogSum", "axes became an input", AxesToInput},
    {18, "ReduceLogSumExp", "axes became an input", AxesToInput},
    {18, "ReduceMax", "axes became an input", AxesToInput},
    {18, "ReduceMean", "axes became an input", AxesToInput},
    {18, "ReduceMin", "axes became an input", AxesToInput},
    {18, "ReduceProd", "axes became an input", AxesToInput},
    {18, "ReduceSumSquare", "axes became an input", AxesToInput},
    {18, "Split", "the number of outputs is given", SplitOutputs},
    {20, "DFT", "axis became an input", DftAxis},
    {20, "GridSample", "modes have new names", GridSampleMode},
};

}  // namespace

std::string OpsetRewrite::Constant(std::string_view base, const TensorView& value) {
  const std::string name = names_->Unique(base);
  auto* tensor = graph_->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(value.dtype());
  for (const int64_t dim : value.dims()) tensor->add_dims(dim);
  tensor->set_raw_data(value.bytes().data(), value.bytes().size());
  return name;
}

std::string OpsetRewrite::Constant(std::string_view base, const std::vector<int64_t>& values) {
  return Constant(base, TensorView::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

std::string OpsetRewrite::Constant(std::string_view base, float value, int32_t dtype) {
  switch (dtype) {
    case onnx::TensorProto::DOUBLE: {
      const std::vector<double> values{value};
      return Constant(base, TensorView::Of<double>({}, values));
    }
    case onnx::TensorProto::FLOAT16: {
      const std::vector<uint16_t> values{FloatToHalf(value)};
      const auto bytes = std::as_bytes(std::span(values));
      return Constant(base, TensorView::Own(dtype, {}, {bytes.begin(), bytes.end()}));
    }
    default: {
      const std::vector<float> values{value};
      return Constant(base, TensorView::Of<float>({}, values));
    }
  }
}

int OpsetRewrite::Rank(std::string_view tensor) const {
  const auto shape = shapes_.Shape(tensor);
  return shape.has_value() ? static_cast<int>(shape->size()) : -1;
}

std::span<const OpsetStep> OpsetSteps() { return kSteps; }

}  // namespace gq::graph
