// Scale, zero point and axis of quantized values, and the real numbers that integers stand for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/tensor_view.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {

// Names of the tensors that hold the parameters: real = (integer - zero_point) * scale.
struct Grid {
  std::string scale;
  std::string zero_point;  // empty: zero
  int64_t axis = 1;        // for a scale of more than one element
  int64_t block_size = 0;  // 0: one scale for the whole length of the axis
};

// Parameters with their values.
struct GridValues {
  std::vector<float> scale;
  std::vector<double> zero_point;   // empty, one, or as many as scale
  std::vector<int64_t> scale_dims;  // of a scale in blocks
  int64_t axis = 1;
  int64_t block_size = 0;
};

// float32 values of `integers`, as the runtime's DequantizeLinear computes them: the difference to
// the zero point rounded to float32, times the scale. MODEL_INVALID when the parameters do not fit
// the shape; `name` stands for the tensor in messages.
absl::StatusOr<std::vector<float>> RealValues(const graph::TensorView& integers,
                                              const GridValues& grid, const std::string& name);

// Smallest and largest integer of a type; 0 and 0 for floats.
struct IntegerLimits {
  double low = 0;
  double high = 0;
};
IntegerLimits LimitsOf(int32_t dtype);

}  // namespace gq::quantize
