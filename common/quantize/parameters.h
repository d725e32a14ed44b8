// Scales and zero points of weights, biases and activations by the rules of the settings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/context.h"
#include "common/quantize/scale.h"

namespace gq::quantize {

// Parameters of the activation `tensor` from the range it uses. DATA_INVALID when nothing was
// observed.
absl::StatusOr<QuantParams> ActivationParams(const QuantizeContext& context,
                                             const std::string& tensor);

// The same with a given element type (dual pairs).
absl::StatusOr<QuantParams> ActivationParamsAs(const QuantizeContext& context,
                                               const std::string& tensor, ElementType type,
                                               bool symmetric);

// Range that `tensor` uses: fixed, or observed on its source.
absl::StatusOr<ValueRange> RangeUsedBy(const QuantizeContext& context, const std::string& tensor);

// Parameters of a constant: one set, or one for each index of `axis`.
std::vector<QuantParams> WeightParams(const QuantizeContext& context, const std::string& name,
                                      std::span<const float> values, std::span<const int64_t> dims,
                                      int axis);

// Stored elements for given parameters.
graph::TensorView QuantizeTensor(std::span<const float> values, std::span<const int64_t> dims,
                                 int axis, std::span<const QuantParams> params);

// Initializer contents: dims [] for one set of parameters, [C] for a set a channel.
graph::TensorView ScaleTensor(std::span<const QuantParams> params, int axis);
graph::TensorView ZeroPointTensor(std::span<const QuantParams> params, int axis);

}  // namespace gq::quantize
