// Reading the data fields of an onnx::TensorProto, with every size checked.
#pragma once

#include "absl/status/statusor.h"
#include "common/graph/tensor_view.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// The elements of a tensor that holds its data itself, in raw or typed form; a copy. MODEL_INVALID
// when data, type and dims disagree, MODEL_UNSUPPORTED for strings. Messages name the tensor.
absl::StatusOr<TensorView> ReadInlineData(const onnx::TensorProto& tensor);

// Checks type, dims and amount of data without reading it. External data: type and dims only.
absl::Status ValidateTensor(const onnx::TensorProto& tensor);

// Bytes that the data of `tensor` takes by its type and dims. MODEL_INVALID as ElementCount and
// ByteSize.
absl::StatusOr<int64_t> TensorBytes(const onnx::TensorProto& tensor);

std::vector<int64_t> Dims(const onnx::TensorProto& tensor);

// "tensor 'name'", or "an unnamed tensor".
std::string Describe(const onnx::TensorProto& tensor);

// "Conv node 'name'", or for a node without a name "the Conv node that makes 'output'".
std::string Describe(const onnx::NodeProto& node);

}  // namespace gq::graph
