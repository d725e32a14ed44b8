// Sparse constants as dense ones.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// Bytes that the dense tensors of one model may have together.
inline constexpr int64_t kMostDenseBytes = int64_t{1} << 30;

// The dense tensor of a sparse one, under the name of its values. Its bytes are taken from
// `budget`. MODEL_INVALID when values, indices and dimensions disagree; MODEL_UNSUPPORTED for
// strings and types of less than a byte; MODEL_TOO_LARGE when the budget is used up.
absl::StatusOr<onnx::TensorProto> MakeDense(const onnx::SparseTensorProto& sparse, int64_t* budget);

// Moves the sparse initializers of a graph and its subgraphs to the dense ones. `made` is added to.
absl::Status MakeInitializersDense(onnx::GraphProto* graph, int64_t* budget, int* made);

}  // namespace gq::graph
