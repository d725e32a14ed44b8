// Weights quantized now, activations at run time.
#pragma once

#include "absl/status/status.h"
#include "common/quantize/context.h"

namespace gq::quantize {

// MatMul, Gemm and Conv with a constant weight become, for W8-A8_dynamic,
//   DynamicQuantizeLinear -> MatMulInteger or ConvInteger -> Cast -> Mul(scales) [-> Add(bias)]
// with int8 weights (Conv: uint8 around 128, which is what ONNX Runtime's ConvInteger takes), and
// for W4-A8_dynamic a MatMulNBits of accuracy level 4; a Conv there, or a weight that is no matrix,
// falls back to 8 bits, which the report says. An LSTM becomes a DynamicQuantizeLSTM. A large table
// that Gather takes rows from becomes int8 with one scale a row. Everything else stays float.
// Attributes (transA, transB, alpha, beta) keep their meaning.
absl::Status QuantizeDynamically(QuantizeContext& context);

}  // namespace gq::quantize
