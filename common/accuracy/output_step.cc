#include "common/accuracy/output_step.h"

#include <algorithm>
#include <array>
#include <string>

namespace gq::accuracy {
namespace {

constexpr int kMaxDepth = 32;

// Operators that pass values of their first input on unchanged.
constexpr std::array kMovers = {
    "Reshape",      "Transpose", "Flatten", "Squeeze", "Unsqueeze",     "Slice", "Split",
    "Gather",       "Identity",  "Expand",  "Tile",    "MaxPool",       "Relu",  "DepthToSpace",
    "SpaceToDepth", "Pad",       "Dropout", "Clip",    "GlobalMaxPool", "Max",   "Concat"};

bool Moves(const std::string& op) {
  return std::find(kMovers.begin(), kMovers.end(), op) != kMovers.end();
}

double Step(const graph::Model& model, const graph::GraphIndex& index, std::string_view tensor,
            int depth) {
  const onnx::NodeProto* node = index.Producer(tensor);
  if (node == nullptr || depth > kMaxDepth) return 0;
  if (node->op_type() == "DequantizeLinear") {
    const onnx::TensorProto* scale = index.Initializer(graph::InputName(*node, 1));
    if (scale == nullptr) return 0;
    const auto view = model.Data(*scale);
    if (!view.ok()) return 0;
    double largest = 0;
    for (int64_t i = 0; i < view->size(); ++i) largest = std::max(largest, view->At(i));
    return largest;
  }
  if (!Moves(node->op_type())) return 0;
  if (node->op_type() != "Concat" && node->op_type() != "Max") {
    return Step(model, index, graph::InputName(*node, 0), depth + 1);
  }
  // A part that is not quantized is exact; the widest step counts.
  double largest = 0;
  for (const std::string& input : node->input()) {
    largest = std::max(largest, Step(model, index, input, depth + 1));
  }
  return largest;
}

}  // namespace

double OutputStep(const graph::Model& model, const graph::GraphIndex& index,
                  std::string_view output) {
  return Step(model, index, output, 0);
}

}  // namespace gq::accuracy
