#include "common/graph/pinning.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

bool IsOpen(const onnx::TensorShapeProto::Dimension& dim) {
  return !dim.has_dim_value() || dim.dim_value() < 0;
}

absl::Status BadShape(const std::string& input, const std::vector<int64_t>& dims,
                      const std::string& why) {
  return base::MakeError(
      Reason::kInvalidFlag,
      StrCat("--input-shape ", input, "=", base::StrJoin(dims, "x"), ": ", why),
      "Give every dimension of the input, as in --input-shape name=1x3x224x224.");
}

// Values of symbolic dimensions.
using Symbols = std::map<std::string, int64_t>;

absl::Status ApplyShape(const std::vector<int64_t>& dims, onnx::ValueInfoProto* input,
                        Symbols* symbols) {
  auto* type = input->mutable_type()->mutable_tensor_type();
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 1; })) {
    return BadShape(input->name(), dims, "dimensions must be at least 1");
  }
  if (!type->has_shape()) {
    for (size_t i = 0; i < dims.size(); ++i) type->mutable_shape()->add_dim();
  }
  if (type->shape().dim_size() != static_cast<int>(dims.size())) {
    return BadShape(input->name(), dims, StrCat("the model's input is ", ShapeText(input->type())));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    auto* dim = type->mutable_shape()->mutable_dim(static_cast<int>(i));
    if (dim->has_dim_param() && !dim->dim_param().empty()) {
      const auto [known, added] = symbols->try_emplace(dim->dim_param(), dims[i]);
      if (!added && known->second != dims[i]) {
        return BadShape(
            input->name(), dims,
            StrCat("dimension ", dim->dim_param(), " is ", known->second, " in another input"));
      }
    } else if (!IsOpen(*dim) && dim->dim_value() != dims[i]) {
      return BadShape(input->name(), dims,
                      StrCat("the model's input is fixed to ", ShapeText(input->type())));
    }
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    type->mutable_shape()->mutable_dim(static_cast<int>(i))->set_dim_value(dims[i]);
  }
  return absl::OkStatus();
}

void ApplySymbols(const Symbols& symbols, onnx::TypeProto* type) {
  if (!type->has_tensor_type() || !type->tensor_type().has_shape()) return;
  for (auto& dim : *type->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    const auto it = symbols.find(dim.dim_param());
    if (dim.has_dim_param() && it != symbols.end()) dim.set_dim_value(it->second);
  }
}

}  // namespace

std::string ShapeText(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return "no tensor";
  if (!type.tensor_type().has_shape()) return "of unknown rank";
  std::vector<std::string> dims;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!IsOpen(dim)) {
      dims.push_back(std::to_string(dim.dim_value()));
    } else {
      dims.push_back(dim.dim_param().empty() ? "?" : dim.dim_param());
    }
  }
  return StrCat("[", base::StrJoin(dims, ", "), "]");
}

absl::StatusOr<std::vector<std::string>> PinInputs(
    const std::map<std::string, std::vector<int64_t>>& shapes, Model* model) {
  auto* graph = model->mutable_graph();
  std::vector<std::string> names;
  for (const auto& input : graph->input()) names.push_back(input.name());
  for (const auto& [name, dims] : shapes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return BadShape(name, dims,
                      StrCat("the inputs of the model are ", base::StrJoin(names, ", ")));
    }
  }
  std::vector<std::string> before;
  for (const auto& input : graph->input()) before.push_back(ShapeText(input.type()));

  Symbols symbols;
  for (auto& input : *graph->mutable_input()) {
    const auto shape = shapes.find(input.name());
    if (shape != shapes.end()) GQ_RETURN_IF_ERROR(ApplyShape(shape->second, &input, &symbols));
  }
  // A symbol in front of one input stands for the batch wherever it appears.
  for (const auto& input : graph->input()) {
    const auto& type = input.type().tensor_type();
    if (!type.has_shape() || type.shape().dim_size() == 0) continue;
    const auto& first = type.shape().dim(0);
    if (IsOpen(first) && !first.dim_param().empty()) symbols.try_emplace(first.dim_param(), 1);
  }
  for (auto& input : *graph->mutable_input()) {
    ApplySymbols(symbols, input.mutable_type());
    if (!input.type().has_tensor_type()) continue;
    auto* type = input.mutable_type()->mutable_tensor_type();
    if (type->has_shape() && type->shape().dim_size() > 0 && IsOpen(type->shape().dim(0))) {
      type->mutable_shape()->mutable_dim(0)->set_dim_value(1);
    }
  }
  for (auto& info : *graph->mutable_value_info()) ApplySymbols(symbols, info.mutable_type());
  for (auto& info : *graph->mutable_output()) ApplySymbols(symbols, info.mutable_type());

  std::vector<std::string> changes;
  for (int i = 0; i < graph->input_size(); ++i) {
    const std::string after = ShapeText(graph->input(i).type());
    if (after != before[i]) {
      changes.push_back(
          StrCat("input '", graph->input(i).name(), "' ", before[i], " is taken as ", after));
    }
  }
  return changes;
}

absl::Status RequireStaticInputs(const Model& model) {
  const GraphIndex index(model.graph());
  std::vector<std::string> open;
  std::vector<std::string> flags;
  for (const auto& input : model.graph().input()) {
    if (!input.type().has_tensor_type()) {
      return base::MakeError(Reason::kModelUnsupported,
                             StrCat("input '", input.name(),
                                    "' is no tensor but a sequence or an "
                                    "optional value, and data files hold arrays only"),
                             "Export the model with tensors as inputs.");
    }
    if (input.type().tensor_type().elem_type() == onnx::TensorProto::STRING) {
      return base::MakeError(
          Reason::kModelUnsupported,
          StrCat("input '", input.name(), "' takes strings, and data files hold numbers only"),
          "Export the model without the part that reads text.");
    }
    if (index.StaticShape(input.name()).has_value()) continue;
    open.push_back(StrCat("input '", input.name(), "' ", ShapeText(input.type())));
    flags.push_back(StrCat("--input-shape ", input.name(), "=..."));
  }
  if (open.empty()) return absl::OkStatus();
  return base::MakeError(
      Reason::kDynamicShape,
      StrCat("dimensions of the model's inputs are not known: ", base::StrJoin(open, "; ")),
      StrCat("Give calibration data that fixes them, or set them: ", base::StrJoin(flags, " ")));
}

std::vector<std::string> OpenTensors(const Model& model) {
  const GraphIndex index(model.graph());
  std::vector<std::string> open;
  for (const auto& node : model.graph().node()) {
    for (const auto& output : node.output()) {
      if (output.empty() || index.StaticShape(output).has_value()) continue;
      // A left-over output that nobody reads does not matter.
      if (index.Uses(output).empty() && !index.IsGraphOutput(output)) continue;
      const auto* type = index.Type(output);
      open.push_back(StrCat("'", output, "' ",
                            type == nullptr ? std::string("of unknown rank") : ShapeText(*type),
                            " of ", Describe(node)));
    }
  }
  return open;
}

}  // namespace gq::graph
