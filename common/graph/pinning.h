// Fixed shapes for the inputs of a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::graph {

// Writes fixed dimensions into the graph inputs: the shapes of `shapes` (input name -> dims), then
// every symbolic dimension that these gave a value, then 1 for each first dimension that is still
// open. Returns one sentence for each input that changed.
//   INVALID_FLAG: a shape for an input that the model does not have, of another rank, with a
//   dimension below 1, or that contradicts a fixed dimension or another use of the same symbol.
absl::StatusOr<std::vector<std::string>> PinInputs(
    const std::map<std::string, std::vector<int64_t>>& shapes, Model* model);

// DYNAMIC_SHAPE when an input of the main graph has no static shape: names them with their
// dimensions and the flag to set. MODEL_UNSUPPORTED for an input that is no tensor.
absl::Status RequireStaticInputs(const Model& model);

// Results of the main graph that somebody reads and that have no static shape although all inputs
// do: it depends on the data, nobody can infer it, or they are no tensors. Needs inferred shapes.
// "'y' [?, 3] of NonMaxSuppression node 'nms'".
std::vector<std::string> OpenTensors(const Model& model);

// "[1, 3, ?, width]": what is known of a shape, symbols by name.
std::string ShapeText(const onnx::TypeProto& type);

}  // namespace gq::graph
