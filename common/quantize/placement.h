// Which tensors of a float graph are quantized, in which order, and with whose parameters. Nothing
// is changed here; insertion (qdq_insertion.h) follows the plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/quantize/settings.h"
#include "common/quantize/targets.h"

namespace gq::quantize {

struct PlannedTensor {
  std::string name;
  // Tensor whose scale and zero point this one takes over; empty for parameters of its own.
  std::string shares_with;
  // Channel axis of a weight that has one scale a channel; -1 for one scale.
  int axis = -1;
};

// A bias that becomes int32 with the scale input * weight * beta.
struct PlannedBias {
  std::string name;
  std::string input;
  std::string weight;
  float beta = 1;
  const onnx::NodeProto* node = nullptr;
  // The node that took the bias first, when this is a further reader with its own scale.
  const onnx::NodeProto* copy_of = nullptr;
};

// Why a node is not quantized, or not as its neighbours are.
struct UnquantizedNode {
  const onnx::NodeProto* node = nullptr;
  std::string reason;
};

struct Placement {
  std::vector<PlannedTensor> tensors;  // in the order in which they were decided
  std::vector<PlannedBias> biases;
  // Readers of a tensor that are quantized, in graph order; a node that reads it twice is there
  // twice.
  absl::flat_hash_map<std::string, std::vector<const onnx::NodeProto*>> readers;
  // Relu and Clip that disappear because their producer's zero point does the clipping: node and
  // the tensor name its producer takes over.
  std::vector<const onnx::NodeProto*> absorbed;
  // Nodes that took part, and the others with the reason.
  absl::flat_hash_set<const onnx::NodeProto*> quantized;
  std::vector<UnquantizedNode> unquantized;
  // Of quantized nodes: why they are not as the scheme says.
  absl::flat_hash_map<const onnx::NodeProto*, std::string> notes;
  // Gemm nodes with a constant bias and a beta.
  std::vector<const onnx::NodeProto*> beta_in_bias;

  bool Contains(std::string_view tensor) const { return positions.contains(base::ToAbsl(tensor)); }
  const PlannedTensor* Find(std::string_view tensor) const {
    const auto it = positions.find(base::ToAbsl(tensor));
    return it == positions.end() ? nullptr : &tensors[it->second];
  }

  absl::flat_hash_map<std::string, size_t> positions;  // into `tensors`
};

// Walks the nodes in graph order. Relu, Clip and (without ForceQuantizeNoInputCheck) data-moving
// operators are quantized only where their input is quantized already.
Placement PlaceQuantization(const graph::GraphIndex& index, const Settings& settings,
                            const Targets& targets);

// True when the settings select this node at all (operator type, exclusion).
bool IsSelected(const onnx::NodeProto& node, const Settings& settings, const Targets& targets);

}  // namespace gq::quantize
