// Positions (scale = 2^-position) around the nodes of a Q/DQ graph, as alignment looks them up.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/quantize/context.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {

// The place where a position is kept: the scale of a quantize or dequantize node.
struct PositionSlot {
  const onnx::NodeProto* node = nullptr;  // the Q or DQ node; null when the tensor is float
  int position = 0;

  explicit operator bool() const { return node != nullptr; }
};

// Nodes must stay in place while this exists; scales may change.
class PositionGraph {
 public:
  PositionGraph(graph::Model& model, const Settings& settings);

  const onnx::GraphProto& graph() const { return model_.graph(); }

  // Of the tensor that input `input` of the node reads.
  PositionSlot Input(const onnx::NodeProto& node, int input = 0) const;
  // Of the data input; a pool is looked at through the node that feeds it when no pair lies
  // between.
  PositionSlot PoolInput(const onnx::NodeProto& node) const;
  // Of the node's output, looking through the factor behind a pool or HardSigmoid and through a
  // fused activation.
  PositionSlot Output(const onnx::NodeProto& node) const;

  void Set(const PositionSlot& slot, int position);

  // Nodes that read this tensor first, in graph order.
  const std::vector<const onnx::NodeProto*>& FirstReaders(std::string_view tensor) const;

 private:
  PositionSlot SlotOf(const onnx::NodeProto* node) const;
  PositionSlot Producing(std::string_view tensor) const;
  PositionSlot Reading(std::string_view tensor) const;

  graph::Model& model_;
  const Settings& settings_;
  InitializerMap initializers_;
  absl::flat_hash_map<std::string, const onnx::NodeProto*> producers_;  // by first output
  absl::flat_hash_map<std::string, std::vector<const onnx::NodeProto*>> readers_;  // by first input
  absl::flat_hash_map<const onnx::NodeProto*, int> order_;
};

}  // namespace gq::quantize
