#include "common/quantize/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/min_mse.h"
#include "common/quantize/quantize_values.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;

struct WeightRule {
  ElementType type;
  bool symmetric;
  double percentile = 100;  // of the values that a float scale keeps in range
};

WeightRule RuleOf(const QuantizeContext& context, const std::string& name) {
  if (const TensorOverride* override = context.targets.Override(name)) {
    return {override->type, override->symmetric};
  }
  WeightRule rule = {context.settings.weight_type, context.settings.weight_symmetric};
  constexpr std::string_view kPercentile = "Percentile:";
  const std::string method = context.config.options.weight_calibrate_method.value_or("");
  if (method.starts_with(kPercentile)) {
    const double percentile = std::atof(method.c_str() + kPercentile.size());
    if (percentile > 50) rule.percentile = percentile;
  }
  return rule;
}

// What stays in range: |x| up to the percentile of |x|, or both ends without symmetry (nearest
// rank).
ValueRange PercentileRange(std::span<const float> values, double percentile, bool symmetric) {
  std::vector<float> sorted(values.begin(), values.end());
  if (symmetric) {
    for (float& value : sorted) value = std::abs(value);
  }
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const auto rank = static_cast<size_t>(std::max(std::ceil(percentile / 100 * count), 1.0)) - 1;
  ValueRange range;
  range.max = sorted[rank];
  range.min = symmetric ? -range.max : sorted[sorted.size() - 1 - rank];
  return range;
}

QuantParams ParamsOf(std::span<const float> values, const WeightRule& rule,
                     const Settings& settings) {
  if (IsReducedFloat(rule.type)) {
    return ReducedFloatParams(RangeOfValues(values), rule.type, settings.weight_scaled);
  }
  switch (settings.weight_method) {
    case WeightMethod::kPowerOfTwoMinMse:
      return MinMseParams(values, rule.type, rule.symmetric, settings.reduce_range);
    case WeightMethod::kFloatMinMse:
      return PercentileMinMseParams(values, rule.type, rule.symmetric);
    case WeightMethod::kPowerOfTwoMinMax:
      return IntegerParams(RangeOfValues(values), rule.type, rule.symmetric, ScaleType::kPowerOfTwo,
                           settings.reduce_range);
    case WeightMethod::kFloatMinMax:
      break;
  }
  if (rule.percentile < 100 && !values.empty()) {
    return IntegerParams(PercentileRange(values, rule.percentile, rule.symmetric), rule.type,
                         rule.symmetric, ScaleType::kFloat32, settings.reduce_range);
  }
  return IntegerParams(RangeOfValues(values), rule.type, rule.symmetric, ScaleType::kFloat32,
                       settings.reduce_range);
}

std::vector<int64_t> ParameterDims(std::span<const QuantParams> params, int axis) {
  if (axis < 0) return {};
  return {static_cast<int64_t>(params.size())};
}

}  // namespace

absl::StatusOr<ValueRange> RangeUsedBy(const QuantizeContext& context, const std::string& tensor) {
  const RangeSource source = context.sources.Of(tensor);
  if (source.fixed) return *source.fixed;
  const auto it = context.observed.find(source.tensor);
  if (it != context.observed.end()) return it->second;
  return MakeError(Reason::kDataInvalid,
                   base::StrCat("Tensor '", tensor, "' was not observed in calibration"),
                   "Give calibration data for this model.");
}

absl::StatusOr<QuantParams> ActivationParamsAs(const QuantizeContext& context,
                                               const std::string& tensor, ElementType type,
                                               bool symmetric) {
  const Settings& settings = context.settings;
  if (IsReducedFloat(type) && !settings.activation_scaled) {
    return ReducedFloatParams({}, type, false);
  }
  GQ_ASSIGN_OR_RETURN(const ValueRange range, RangeUsedBy(context, tensor));
  if (IsReducedFloat(type)) return ReducedFloatParams(range, type, true);
  return IntegerParams(range, type, symmetric, settings.activation_scale);
}

absl::StatusOr<QuantParams> ActivationParams(const QuantizeContext& context,
                                             const std::string& tensor) {
  const TensorOverride* override = context.targets.Override(tensor);
  return ActivationParamsAs(
      context, tensor, override == nullptr ? context.settings.activation_type : override->type,
      override == nullptr ? context.settings.activation_symmetric : override->symmetric);
}

std::vector<QuantParams> WeightParams(const QuantizeContext& context, const std::string& name,
                                      std::span<const float> values, std::span<const int64_t> dims,
                                      int axis) {
  const WeightRule rule = RuleOf(context, name);
  if (axis < 0) return {ParamsOf(values, rule, context.settings)};
  std::vector<QuantParams> params;
  params.reserve(static_cast<size_t>(dims[axis]));
  for (int64_t channel = 0; channel < dims[axis]; ++channel) {
    params.push_back(ParamsOf(ChannelValues(values, dims, axis, channel), rule, context.settings));
  }
  return params;
}

graph::TensorView QuantizeTensor(std::span<const float> values, std::span<const int64_t> dims,
                                 int axis, std::span<const QuantParams> params) {
  std::vector<std::byte> bytes =
      axis < 0 ? QuantizeValues(values, params[0]) : QuantizePerChannel(values, dims, axis, params);
  return graph::TensorView::Own(params[0].type, {dims.begin(), dims.end()}, std::move(bytes));
}

graph::TensorView ScaleTensor(std::span<const QuantParams> params, int axis) {
  std::vector<float> scales;
  for (const auto& param : params) scales.push_back(param.scale);
  return graph::TensorView::Of<float>(ParameterDims(params, axis), scales);
}

graph::TensorView ZeroPointTensor(std::span<const QuantParams> params, int axis) {
  // The zero point of a reduced float is 0, whose bits are 0 too; integers are stored as they are.
  const size_t width = static_cast<size_t>(graph::BitsPerElement(params[0].type)) / 8;
  std::vector<std::byte> bytes(params.size() * width);
  for (size_t i = 0; i < params.size(); ++i) {
    for (size_t byte = 0; byte < width; ++byte) {
      bytes[i * width + byte] = static_cast<std::byte>(params[i].zero_point >> (8 * byte));
    }
  }
  return graph::TensorView::Own(params[0].type, ParameterDims(params, axis), std::move(bytes));
}

}  // namespace gq::quantize
