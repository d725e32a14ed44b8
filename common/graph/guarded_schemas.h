// The operator schemas of the onnx library, made safe for models that nobody vouches for.
#pragma once

#include "onnx/defs/schema.h"

namespace gq::graph {

// The library's schemas, with a check before each shape inference function: kinds of inputs, axes,
// counts, and for windowed operators (convolutions, pools) ranks, lengths and signs of attributes.
// The library reads past the end of vectors, follows null pointers or divides by zero where these
// do not fit. What does not fit is a shape inference error that says so. Values of shapes are
// followed through tensors of at most 1,024 elements; the library would make a message for each
// element of any longer tensor of one dimension. Thread-safe; lives as long as the process.
const onnx::ISchemaRegistry& GuardedSchemas();

}  // namespace gq::graph
