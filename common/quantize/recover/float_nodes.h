// Nodes that recovery leaves in float. Compute layers are never among them.
#pragma once

#include <string>
#include <vector>

#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

// Adds nodes of state.source to those that state.config excludes, under the names the
// configuration knows them by. Returns how many are new.
int KeepFloat(const std::vector<std::string>& nodes, const RecoveryData& data,
              RecoveryState& state);

// Squares, roots, powers, logarithms, exponentials and quotients of two activations, with what lies
// between two of them, stay in float: their values reach over many orders of magnitude, of which
// one scale holds two.
class FloatFunctions : public RecoveryPass {
 public:
  std::string_view name() const override { return "functions"; }
  absl::StatusOr<int> Run(const RecoveryData& data, RecoveryState& state) const override;
  double least_gain() const override { return 0.5; }
  bool JudgedBehindRounding() const override { return true; }
};

// Names of those nodes in graph order.
std::vector<std::string> WideFunctions(const onnx::GraphProto& graph);

}  // namespace gq::quantize
