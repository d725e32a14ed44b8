#include "common/quantize/config.h"

namespace gq::quantize {

TensorSpec XInt8Spec() {
  return {.type = onnx::TensorProto::INT8,
          .scale_type = ScaleType::kPowerOfTwo,
          .method = CalibrationMethod::kMinMse};
}

TensorSpec Int8Spec() {
  return {.type = onnx::TensorProto::INT8, .method = CalibrationMethod::kPercentile};
}

TensorSpec UInt8Spec() {
  return {.type = onnx::TensorProto::UINT8,
          .symmetric = false,
          .method = CalibrationMethod::kPercentile};
}

TensorSpec Int16Spec() {
  return {.type = onnx::TensorProto::INT16, .method = CalibrationMethod::kPercentile};
}

TensorSpec BFloat16Spec() { return {.type = onnx::TensorProto::BFLOAT16}; }

TensorSpec Float16Spec() { return {.type = onnx::TensorProto::FLOAT16}; }

}  // namespace gq::quantize
