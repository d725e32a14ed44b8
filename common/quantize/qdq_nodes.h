// Recognizing quantize and dequantize operators of every domain.
#pragma once

#include "onnx/onnx_pb.h"

namespace gq::quantize {

// QuantizeLinear of any domain, or com.amd.quark's ExtendedQuantizeLinear.
inline bool IsQuantizeNode(const onnx::NodeProto& node) {
  return node.op_type() == "QuantizeLinear" || node.op_type() == "ExtendedQuantizeLinear";
}
inline bool IsDequantizeNode(const onnx::NodeProto& node) {
  return node.op_type() == "DequantizeLinear" || node.op_type() == "ExtendedDequantizeLinear";
}
inline bool IsQdqNode(const onnx::NodeProto& node) {
  return IsQuantizeNode(node) || IsDequantizeNode(node);
}

}  // namespace gq::quantize
