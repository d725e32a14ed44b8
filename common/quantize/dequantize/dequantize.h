// Takes the quantization out of a model: what is left computes in float32.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"

namespace gq::quantize {

// What Dequantize did.
struct DequantizeReport {
  graph::ModelState state = graph::ModelState::kFloat;  // before
  std::map<std::string, int> removed;   // operator -> nodes that went, "com.microsoft.QLinearAdd"
  std::map<std::string, int> replaced;  // operator -> nodes that became float operators
  int constants = 0;                    // integer constants that became float32
  int64_t constant_bytes_before = 0;
  int64_t constant_bytes_after = 0;
  int clamps = 0;                    // Relu and Clip nodes that the quantized ranges stood for
  int rescales = 0;                  // pairs with different parameters on both sides
  int hardware_factors = 0;          // constants of the NPU's arithmetic that were taken out
  std::vector<std::string> details;  // one sentence each
  std::vector<std::string> warnings;
};

// Turns a loaded, normalized model into a float one (docs/dequantize.md has the table of forms):
//   * QuantizeLinear and DequantizeLinear of the default domain, com.microsoft and com.amd.quark go
//     (all integer types, int4 and float8 too; per tensor, per axis, in blocks); readers read the
//     tensor before. A constant becomes a float32 constant of the values it stood for, bit for bit
//     what the runtime would compute.
//   * QLinear* and *Integer operators, MatMulNBits and the fused ones of com.microsoft become the
//     float operators that they stand for.
//   * Cast pairs to bfloat16 or float16 and back go, with the factors around them; block formats of
//     com.amd.quark are passed by.
//   * Where a range starts at zero and so did the work of a Relu (or ends at 6 and did that of a
//     Relu6), the operator comes back: quantizers fold it into the range.
//   * Inputs and outputs that were integers or bfloat16 become float32.
// Integers that an ordinary operator reads are computed with float arithmetic. Bodies of If, Loop
// and Scan are walked. Afterwards no such operator is left, shapes are inferred anew and the
// checker has passed. Weights keep their quantization error: the model before it cannot be had
// back.
//
// NOT_QUANTIZED for a float model; MODEL_UNSUPPORTED names a node that has no float form.
absl::StatusOr<DequantizeReport> Dequantize(graph::Model* model);

}  // namespace gq::quantize
