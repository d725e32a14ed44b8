// The order that ONNX Runtime's Python tools give a graph: breadth first from the constants and the
// inputs in order of their names. Alignment depends on it, so Compatibility::kQuark uses it.
#pragma once

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {

// MODEL_INVALID when the graph has a cycle; it then stays as it was.
absl::Status SortBreadthFirst(onnx::GraphProto* graph);

}  // namespace gq::quantize
