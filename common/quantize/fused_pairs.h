// Activations that the hardware computes together with their producer: no Q/DQ pair belongs between
// the two.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "common/graph/graph_index.h"
#include "common/quantize/pass.h"

namespace gq::quantize {

// Conv, Add, MaxPool, AveragePool, GlobalAveragePool, MatMul, Gemm, ConvTranspose.
bool IsFusableProducer(std::string_view op_type);

// An activation of `types`; a Clip only when it is [0, 6] or [0, 1].
bool IsFusableActivation(const onnx::NodeProto& node, const onnx::GraphProto& graph,
                         const graph::Model& model, const absl::flat_hash_set<std::string>& types);

// Tensors of the float graph that lie inside such an operation (or between a Pad and a pool): read
// by one node only.
absl::flat_hash_set<std::string> FusedTensors(const graph::GraphIndex& index,
                                              const graph::Model& model, const Settings& settings);

// Takes the pairs on those tensors out again.
class RemoveFusedPairs : public QuantizePass {
 public:
  std::string_view name() const override { return "fused pairs"; }
  std::string_view summary() const override {
    return "no Q/DQ pair stays inside an operation that the hardware fuses";
  }
  bool IsOn(const Settings&) const override { return true; }
  absl::StatusOr<int> Run(QuantizeContext& context) const override;
};

}  // namespace gq::quantize
