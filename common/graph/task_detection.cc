#include "common/graph/task_detection.h"

#include <algorithm>
#include <set>
#include <vector>

#include "common/base/text.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;
using NameSet = std::set<std::string, std::less<>>;

constexpr int kNearOutputs = 15;

// Nodes within `hops` producers of the graph outputs, nearest first.
std::vector<const onnx::NodeProto*> NodesNearOutputs(const GraphIndex& index, int hops) {
  std::vector<const onnx::NodeProto*> found;
  std::set<const onnx::NodeProto*> seen;
  std::vector<std::string> tensors;
  for (const auto& output : index.graph().output()) tensors.push_back(output.name());
  for (int hop = 0; hop < hops && !tensors.empty(); ++hop) {
    std::vector<std::string> next;
    for (const auto& tensor : tensors) {
      const auto* producer = index.Producer(tensor);
      if (producer == nullptr || !seen.insert(producer).second) continue;
      found.push_back(producer);
      next.insert(next.end(), producer->input().begin(), producer->input().end());
    }
    tensors = std::move(next);
  }
  return found;
}

// The last node that computes something: pass-through operators are skipped.
const onnx::NodeProto* Tail(const GraphIndex& index, std::string_view output) {
  static const NameSet passing = {
      "Identity",       "Cast",      "Reshape",   "Flatten", "Squeeze",
      "QuantizeLinear", "Unsqueeze", "Transpose", "Dropout", "DequantizeLinear"};
  const auto* node = index.Producer(output);
  for (int hop = 0; hop < kNearOutputs && node != nullptr; ++hop) {
    if (!passing.contains(node->op_type())) return node;
    node = index.Producer(node->input(0));
  }
  return node;
}

// [N, C], also with dimensions of one behind it.
bool IsVector(const std::vector<int64_t>& shape) {
  if (shape.size() < 2) return false;
  return std::all_of(shape.begin() + 2, shape.end(), [](int64_t dim) { return dim == 1; });
}

bool IsImage(const std::vector<int64_t>& shape) {
  return shape.size() == 4 && shape[2] != 1 && shape[3] != 1;
}

bool OverChannels(const onnx::NodeProto& node, const GraphIndex& index) {
  const auto shape = index.Shape(node.input(0));
  if (!shape.has_value() || !IsImage(*shape)) return false;
  const int64_t axis = AttributeInt(node, "axis", IsOp(node, "ArgMax") ? 0 : -1);
  // Channels last appear in models that were converted from TensorFlow.
  return axis == 1 || axis == 3 || axis == -3 || axis == -1;
}

bool IsDense(const onnx::NodeProto& node) {
  return IsOp(node, "Gemm") || IsOp(node, "MatMul") || IsOp(node, "GlobalAveragePool") ||
         IsOp(node, "ReduceMean") || IsOp(node, "Conv");
}

std::vector<const onnx::ValueInfoProto*> FloatOutputs(const GraphIndex& index) {
  std::vector<const onnx::ValueInfoProto*> outputs;
  for (const auto& output : index.graph().output()) {
    if (IsFloatType(output.type().tensor_type().elem_type())) outputs.push_back(&output);
  }
  return outputs;
}

// Evidence in one output of [N, C]; empty for none.
std::string ClassEvidence(const onnx::NodeProto* tail, int64_t classes, const GraphIndex& index) {
  if (tail == nullptr || classes == 1) return "";
  if (IsOp(*tail, "Softmax") || IsOp(*tail, "LogSoftmax")) {
    return StrCat("it ends in ", Describe(*tail));
  }
  if (IsOp(*tail, "Add") || IsOp(*tail, "Sigmoid")) {
    for (const auto& input : tail->input()) {
      const auto* before = Tail(index, input);
      if (before != nullptr && (IsOp(*before, "MatMul") || IsOp(*before, "Gemm"))) tail = before;
    }
  }
  if (IsDense(*tail)) return StrCat("it ends in ", Describe(*tail));
  return classes >= 100 && classes <= 10000 ? StrCat(classes, " values per sample") : "";
}

}  // namespace

std::string_view TaskTypeName(TaskType task) {
  switch (task) {
    case TaskType::kClassification:
      return "classification";
    case TaskType::kDetection:
      return "detection";
    case TaskType::kSegmentation:
      return "segmentation";
    case TaskType::kRegression:
      return "regression";
  }
  return "regression";
}

TaskGuess DetectTask(const GraphIndex& index) {
  static const NameSet detection = {"NonMaxSuppression", "TopK", "ScatterND"};
  for (const auto* node : NodesNearOutputs(index, kNearOutputs)) {
    if (detection.contains(node->op_type())) {
      return {TaskType::kDetection, StrCat(Describe(*node), " stands near the outputs")};
    }
  }
  const auto& graph = index.graph();
  for (const auto& output : graph.output()) {
    const auto* tail = Tail(index, output.name());
    if (tail == nullptr) continue;
    const bool over_classes =
        IsOp(*tail, "ArgMax") || IsOp(*tail, "Softmax") || IsOp(*tail, "LogSoftmax");
    if (over_classes && OverChannels(*tail, index)) {
      return {TaskType::kSegmentation,
              StrCat("output '", output.name(), "' is ", Describe(*tail), " over channels")};
    }
  }
  const auto outputs = FloatOutputs(index);
  if (outputs.size() != 1) {
    return {TaskType::kRegression,
            StrCat(outputs.size(), " float outputs, each is judged on its own")};
  }
  const std::string& name = outputs[0]->name();
  const auto shape = index.Shape(name);
  if (shape.has_value() && IsVector(*shape)) {
    const std::string evidence = ClassEvidence(Tail(index, name), (*shape)[1], index);
    if (!evidence.empty()) {
      return {TaskType::kClassification,
              StrCat("output '", name, "' is [N, ", (*shape)[1], "] and ", evidence)};
    }
  }
  if (shape.has_value() && IsImage(*shape)) {
    return {TaskType::kRegression, StrCat("output '", name, "' is an image")};
  }
  return {TaskType::kRegression, StrCat("nothing points to classes in output '", name, "'")};
}

}  // namespace gq::graph
