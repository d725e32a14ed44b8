// Names that are no text.
#pragma once

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// MODEL_INVALID, naming the place, when a string of the message (names, types, documentation; not
// the data of tensors) is no UTF-8: reports, logs and other tools could not hold it.
absl::Status CheckText(const onnx::ModelProto& model);

}  // namespace gq::graph
