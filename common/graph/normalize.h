// One form for what models express in several ways. Nothing here changes what a model computes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// Brings a message as it was read into the form that the engine works on:
//   the domain ai.onnx gets its short name; functions of the model are inlined; sparse tensors
//   become dense; Constant nodes become initializers (but for those that make
//   a graph output); initializers are no longer listed as inputs; nodes stand in topological order
//   and have unique names (given names are kept); a graph without a name gets one; IR versions
//   below 4 become 4.
// MODEL_INVALID: cycles, missing or doubly made tensors, recursive functions; MODEL_UNSUPPORTED:
// sparse tensors of strings. Adds a sentence to `notes` for each kind of change that a user may
// want to know.
absl::Status NormalizeModel(onnx::ModelProto* model, std::vector<std::string>* notes);

}  // namespace gq::graph
