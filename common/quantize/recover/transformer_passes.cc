#include "common/quantize/recover/transformer_passes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/status.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/recover/float_nodes.h"

namespace gq::quantize {
namespace {

constexpr float kHuge = 1e4f;     // no score is so large
constexpr float kMargin = 10;     // exp(-10) is far below a step of an int8 probability
constexpr size_t kMaxNodes = 64;  // between a mask and its Softmax

// Nodes that hand a mask on as it is, but for scaling and adding it.
bool CarriesMask(const onnx::NodeProto& node) {
  static const std::set<std::string> kTypes = {"Mul",     "Add",      "Where",     "Sub",
                                               "Reshape", "Expand",   "Unsqueeze", "Squeeze",
                                               "Cast",    "Identity", "Transpose", "Slice"};
  return kTypes.contains(node.op_type());
}

// Nodes on the ways from `tensor` to a Softmax; empty when none arrives there.
std::vector<const onnx::NodeProto*> WaysToSoftmax(const graph::GraphIndex& index,
                                                  const std::string& tensor) {
  std::vector<const onnx::NodeProto*> ways;
  std::vector<std::string> open = {tensor};
  std::set<std::string> seen;
  bool arrived = false;
  while (!open.empty() && ways.size() < kMaxNodes) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (!seen.insert(name).second) continue;
    for (const auto& use : index.Uses(name)) {
      const onnx::NodeProto& node = index.node(use.node);
      if (node.op_type() == "Softmax") arrived = true;
      if (!CarriesMask(node)) continue;
      ways.push_back(&node);
      open.push_back(node.output(0));
    }
  }
  if (!arrived) ways.clear();
  return ways;
}

// Largest magnitude among what the nodes read that is no mask itself.
float LargestScore(const std::vector<const onnx::NodeProto*>& ways,
                   const calibrate::CalibrationTable& table) {
  float largest = 0;
  for (const onnx::NodeProto* node : ways) {
    for (const auto& input : node->input()) {
      const auto* seen = table.Find(input);
      if (seen == nullptr) continue;
      const float size = std::max(std::abs(seen->min), std::abs(seen->max));
      if (size < kHuge) largest = std::max(largest, size);
    }
  }
  return largest;
}

}  // namespace

absl::StatusOr<int> MaskConstants::Run(const RecoveryData&, RecoveryState& state) const {
  const graph::Model before = state.source;
  const graph::GraphIndex index(before.graph());
  int changed = 0;
  for (auto& tensor : *state.source.mutable_graph()->mutable_initializer()) {
    if (tensor.data_type() != onnx::TensorProto::FLOAT) continue;
    GQ_ASSIGN_OR_RETURN(const graph::TensorView view, state.source.Data(tensor));
    const auto values = view.As<float>();
    const auto huge = [](float value) { return std::isfinite(value) && std::abs(value) > kHuge; };
    if (!std::any_of(values.begin(), values.end(), huge)) continue;
    const auto ways = WaysToSoftmax(index, tensor.name());
    if (ways.empty()) continue;
    const float bound = std::ceil(LargestScore(ways, state.table) + kMargin);
    std::vector<float> held(values.begin(), values.end());
    for (float& value : held) {
      if (huge(value)) value = std::copysign(bound, value);
    }
    state.source.SetData(graph::TensorView::Of<float>(view.dims(), held), &tensor);
    ++changed;
  }
  if (changed > 0) {
    state.table = {};  // ranges behind the mask are others now
    state.stale = true;
    state.rewritten = true;
  }
  return changed;
}

absl::StatusOr<int> FloatResiduals::Run(const RecoveryData& data, RecoveryState& state) const {
  const onnx::GraphProto& graph = state.source.graph();
  if (graph::AttentionNodes(graph).empty()) return 0;
  std::vector<std::string> nodes = graph::ResidualAdds(graph);
  for (const auto& node : graph.node()) {
    if (node.op_type() == "LayerNormalization") nodes.push_back(node.name());
  }
  const int changed = KeepFloat(nodes, data, state);
  state.stale = changed > 0;
  return changed;
}

}  // namespace gq::quantize
