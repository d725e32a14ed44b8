// The operator schemas of the onnx library, made safe for models that nobody vouches for.
#pragma once

#include "onnx/defs/schema.h"

namespace gq::graph {

// The library's schemas, but for windowed operators (convolutions, pools) a check comes before
// their shape inference: ranks, attribute lengths and signs. The library reads past the end of
// vectors, or divides by zero, where these do not fit. What does not fit is a shape inference error
// that names the attribute. Thread-safe; lives as long as the process.
const onnx::ISchemaRegistry& GuardedSchemas();

}  // namespace gq::graph
