// For each operator type, which of its tensors are quantized: a table of small rules.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/graph/graph_index.h"
#include "common/quantize/placement.h"

namespace gq::quantize {

// Collects the decisions of the rules, in graph order.
class Placer {
 public:
  Placer(const graph::GraphIndex& index, const Settings& settings, const Targets& targets);
  Placement Run() &&;

  const graph::GraphIndex& index() const { return index_; }
  const Settings& settings() const { return settings_; }

  // A float tensor gets parameters of its own, unless it has some already.
  void Mark(std::string_view tensor);
  // A constant: one scale for each index of `axis` where the settings want that, else as Mark.
  void MarkWeight(std::string_view tensor, int axis);
  // `output` takes over the parameters of `input`, whatever was decided before.
  void MarkShared(std::string_view output, std::string_view input);
  // The constant bias of a compute node, by the bias rule of the path.
  void MarkBias(const onnx::NodeProto& node, std::string_view bias, float beta);
  bool IsMarked(std::string_view tensor) const;
  bool IsFloatConstant(std::string_view tensor) const {
    return index_.IsInitializer(tensor) && IsQuantizable(tensor);
  }
  // False where the settings leave the outputs of this operator type alone.
  bool QuantizesOutput(const onnx::NodeProto& node) const;
  // Lets the zero point of the producer do the work of a Relu or Clip; false where it cannot.
  bool Absorb(const onnx::NodeProto& node);
  // The node stays float for this reason.
  void Refuse(const onnx::NodeProto& node, std::string reason);
  void NoteBetaInBias(const onnx::NodeProto& node) { placement_.beta_in_bias.push_back(&node); }

 private:
  bool IsQuantizable(std::string_view tensor) const;
  PlannedTensor* Slot(std::string_view tensor);
  void MarkPerChannel(std::string_view tensor, int axis);
  int ChannelAxis(std::string_view tensor, int axis) const;
  std::string ReasonOfExclusion(const onnx::NodeProto& node) const;
  bool HasStaticResults(const onnx::NodeProto& node) const;
  void DropAbsorbed();

  const graph::GraphIndex& index_;
  const Settings& settings_;
  const Targets& targets_;
  Placement placement_;
  absl::flat_hash_map<std::string, const onnx::NodeProto*> biases_;  // name -> first reader
  absl::flat_hash_set<std::string> silent_outputs_;
  absl::flat_hash_set<std::string> absorbed_tensors_;
};

// Applies the rule of the node's operator type for the path of the settings.
void PlaceNode(const onnx::NodeProto& node, Placer& placer);

// alpha 1/6 and beta absent or 0.5: the only HardSigmoid that the NPU has.
bool IsNpuHardSigmoid(const onnx::NodeProto& node);

}  // namespace gq::quantize
