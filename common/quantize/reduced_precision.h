// What a model computes on the NPU in bfloat16 or float16, on a CPU: the figures of a board without
// a board (spec/engine.md 2, "The BF16 reference").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/scale.h"

namespace gq::quantize {

// Metadata key of an emitted file whose float tensors are converted by the NPU's compiler; its
// value is "bf16" or "fp16". The file itself stays standard float32 and Q/DQ.
inline constexpr std::string_view kFloatPrecisionKey = "gq_float_precision";

// What a plain run of a file on a CPU does not show.
struct HiddenPrecision {
  // BFLOAT16 or FLOAT16: what the tensors outside of int8 layers are on the NPU. UNDEFINED: float.
  ElementType float_tensors = 0;
  // Q/DQ pairs of com.amd.quark, which no stock runtime has.
  bool extended_pairs = false;
  // One sentence: how this was seen.
  std::string reason;

  bool any() const { return float_tensors != 0 || extended_pairs; }
};

// Reads the file's metadata (kFloatPrecisionKey), its operators, and, for Quark's weights-only form
// (EnableVaimlBF16), its weights `<name>_bf16`. A Cast form hides nothing.
HiddenPrecision FindHiddenPrecision(const graph::Model& model);

struct ReducedPrecision {
  graph::Model model;
  int tensors = 0;    // activations that pass through a rounding now
  int constants = 0;  // float constants that were rounded
  int pairs = 0;      // pairs of com.amd.quark that became standard operators
  // What was not rounded, and why, one sentence each.
  std::vector<std::string> notes;
};

// A model for stock ONNX Runtime with the inputs and outputs of `model` (a float model, or an
// emitted file of any form), in which
// * every float tensor that is `precision` (BFLOAT16 or FLOAT16) on the NPU passes through a
//   rounding to nearest, ties to even: a Cast to that type and one back, which ONNX Runtime keeps.
//   Constants hold rounded values, large ones the largest finite value. Activations beyond the
//   range of float16 become infinite, as on the device;
// * Q/DQ pairs of com.amd.quark are Casts (scale 1), Casts with a Mul, or standard Q/DQ.
// UNDEFINED does the second only.
//
// Not rounded: what an int8 layer holds inside (between a compute layer with dequantized inputs and
// the Q behind it or behind its activation) with its constants, the results of DequantizeLinear (an
// int8 value times a power of two is exact in both types), scales and shapes, results that are
// exact anyway (of operators that only move or select values), tensors in bodies of If and Loop
// (said in notes). Non-float models come back as they are. MODEL_INVALID for constants that cannot
// be read.
absl::StatusOr<ReducedPrecision> ReducedPrecisionReference(const graph::Model& model,
                                                           ElementType precision);

// `model` itself, or its reference where the file alone would not show what the device computes.
absl::StatusOr<graph::Model> AsOnDevice(const graph::Model& model);

// "BF16" or "FP16".
std::string_view PrecisionName(ElementType precision);

}  // namespace gq::quantize
