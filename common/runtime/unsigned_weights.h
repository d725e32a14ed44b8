// Int8 weights of integer operators written as uint8 ones.
#pragma once

#include <optional>

#include "common/graph/model.h"

namespace gq::runtime {

// True on x86 without VNNI instructions: there ONNX Runtime's kernels add two products of a uint8
// and an int8 in 16 bits, and large weights saturate that sum. Arm and newer x86 do not.
bool IntegerKernelsSaturate();

// A copy in which constant int8 weights that meet uint8 activations (MatMulInteger, ConvInteger,
// QLinearConv, QLinearMatMul, QGemm and their kin in the main graph) are uint8, 128 larger, and so
// are their zero points: the same integers come out of every kernel, and none saturates. Nothing
// where there are no such weights. ONNX Runtime does the same at level kExtended when
// session.x64quantprecision is set, but not below.
std::optional<graph::Model> WithUnsignedWeights(const graph::Model& model);

}  // namespace gq::runtime
