#include "common/quantize/mixed_precision.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"

namespace gq::quantize {
namespace {

using graph::GraphIndex;

struct Depth {
  int least = std::numeric_limits<int>::max();  // compute layers on the path with the fewest
  bool reached = false;
};

// For each node the least number of compute layers up to and including it, from any graph input.
std::vector<Depth> DepthsFromInputs(const GraphIndex& index) {
  const auto& graph = index.graph();
  std::vector<Depth> depths(graph.node_size());
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    Depth& depth = depths[i];
    for (const auto& input : node.input()) {
      if (index.IsGraphInput(input) && !index.IsInitializer(input)) {
        depth = {0, true};
      }
      const int producer = index.ProducerPosition(input);
      if (producer < 0 || !depths[producer].reached) continue;
      depth.least = std::min(depth.least, depths[producer].least);
      depth.reached = true;
    }
    if (depth.reached && graph::IsComputeNode(node)) ++depth.least;
  }
  return depths;
}

// The same from the graph outputs backwards.
std::vector<Depth> DepthsFromOutputs(const GraphIndex& index) {
  const auto& graph = index.graph();
  std::vector<Depth> depths(graph.node_size());
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const auto& node = graph.node(i);
    Depth& depth = depths[i];
    for (const auto& output : node.output()) {
      if (index.IsGraphOutput(output)) depth = {0, true};
      for (const auto& use : index.Uses(output)) {
        if (!depths[use.node].reached) continue;
        depth.least = std::min(depth.least, depths[use.node].least);
        depth.reached = true;
      }
    }
    if (depth.reached && graph::IsComputeNode(node)) ++depth.least;
  }
  return depths;
}

}  // namespace

void PromoteNodes(std::span<const std::string> nodes, ElementType precision, MixedForm form,
                  QuantizeConfig* config) {
  if (nodes.empty()) return;
  if (precision == onnx::TensorProto::INT8) {
    config->overrides.push_back(
        {.targets = {nodes.begin(), nodes.end()},
         .layer = {.weight = TensorSpec{.granularity = Granularity::kChannel}}});
    return;
  }
  if (precision == onnx::TensorProto::INT16) {
    config->overrides.push_back(
        {.targets = {nodes.begin(), nodes.end()},
         .layer = {.input_tensors = Int16Spec(), .output_tensors = Int16Spec()}});
    config->options.enable_dual_quant_node_pairs = true;
    return;
  }
  if (form == MixedForm::kFloat) {
    config->exclude.insert(config->exclude.end(), nodes.begin(), nodes.end());
    config->options.dedicated_qdq_pair = true;
    config->float_precision = precision == onnx::TensorProto::FLOAT16 ? "fp16" : "bf16";
    return;
  }
  const TensorSpec spec = precision == onnx::TensorProto::FLOAT16 ? Float16Spec() : BFloat16Spec();
  config->overrides.push_back({.targets = {nodes.begin(), nodes.end()},
                               .layer = {.input_tensors = spec, .weight = spec, .bias = spec}});
  ExtraOptions& options = config->options;
  options.bf16_qdq_to_cast = true;
  options.enable_dual_quant_node_pairs = true;
  options.int32_bias = false;
  options.convert_split_to_slice = true;
}

absl::StatusOr<HeadAndTail> FindHeadAndTail(const onnx::GraphProto& graph, int head, int tail) {
  const GraphIndex index(graph);
  const auto from_inputs = DepthsFromInputs(index);
  const auto from_outputs = DepthsFromOutputs(index);
  HeadAndTail found;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    const Depth& before = from_inputs[i];
    const Depth& behind = from_outputs[i];
    if (!before.reached || !behind.reached) continue;
    const int own = graph::IsComputeNode(node) ? 1 : 0;
    if (before.least + behind.least - own < head + tail + 1) {
      return base::MakeError(
          base::Reason::kConfigInvalid,
          base::StrCat("The path through '", node.name(), "' has ",
                       before.least + behind.least - own, " compute layers; ", head,
                       " at the head and ", tail, " at the tail need at least ", head + tail + 1),
          "Lower --head or --tail, or choose another configuration.");
    }
    // What lies behind the last layer of the head, or before the first of the tail, is neither.
    if (before.least < head || (before.least == head && own == 1))
      found.head.push_back(node.name());
    if (behind.least < tail || (behind.least == tail && own == 1)) {
      found.tail.push_back(node.name());
    }
  }
  return found;
}

}  // namespace gq::quantize
