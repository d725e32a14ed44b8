// Layers of higher precision among int8 ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/config.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {

// Leaves `nodes` in `precision` (BFLOAT16 or FLOAT16). kFloat: they are excluded, so the file holds
// them in float32 and the compiler converts them (float_precision); standard Q/DQ. kCast: overrides
// with Cast pairs at the borders, and the options that this form needs. INT16: activations of int16
// beside weights as they are, INT8: weights of int8 where the scheme has int4 ones; both are
// overrides in any form. Adds to what the configuration has.
void PromoteNodes(std::span<const std::string> nodes, ElementType precision, MixedForm form,
                  QuantizeConfig* config);

struct HeadAndTail {
  std::vector<std::string> head;  // nodes from the graph inputs to the N-th compute layer of a path
  std::vector<std::string> tail;  // nodes from the N-th last compute layer of a path to the outputs
};

// Counts compute layers (`head` and `tail` of them) along every path. CONFIG_INVALID when a path
// from an input to an output has fewer than head + tail + 1.
absl::StatusOr<HeadAndTail> FindHeadAndTail(const onnx::GraphProto& graph, int head = 1,
                                            int tail = 1);

}  // namespace gq::quantize
