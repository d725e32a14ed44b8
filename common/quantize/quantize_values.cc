#include "common/quantize/quantize_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/graph/tensor_view.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {
namespace {

using onnx::TensorProto;

float QuantizedAsFloat(float value, const QuantParams& params, IntegerRange range) {
  const float steps = std::nearbyint(value / params.scale) + static_cast<float>(params.zero_point);
  if (std::isnan(steps)) return static_cast<float>(params.zero_point);
  return std::clamp(steps, static_cast<float>(range.min), static_cast<float>(range.max));
}

// The common case of weights, in a form that compilers turn into vector code.
std::vector<std::byte> QuantizeToInt8(std::span<const float> values, const QuantParams& params,
                                      IntegerRange range) {
  constexpr float kRound = 12582912.0f;
  const auto lowest = static_cast<float>(range.min);
  const auto highest = static_cast<float>(range.max);
  const float scale = params.scale;
  std::vector<std::byte> bytes(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    float steps = values[i] / scale;
    steps = steps == steps ? steps : 0.0f;
    steps = steps < highest ? steps : highest;
    steps = steps > lowest ? steps : lowest;
    bytes[i] = static_cast<std::byte>(static_cast<int8_t>((steps + kRound) - kRound));
  }
  return bytes;
}

// The same round trip for types of at most 16 bits in a form that compilers turn into vector code:
// adding and taking away 1.5 * 2^23 rounds half to even.
void RoundTripNarrow(std::span<const float> values, const QuantParams& params, IntegerRange range,
                     float* result) {
  constexpr float kRound = 12582912.0f;
  constexpr float kBeyond = 1048576.0f;  // outside of every range, inside of what kRound rounds
  const auto zero_point = static_cast<float>(params.zero_point);
  const auto lowest = static_cast<float>(range.min);
  const auto highest = static_cast<float>(range.max);
  const float scale = params.scale;
  for (size_t i = 0; i < values.size(); ++i) {
    float steps = values[i] / scale;
    steps = steps == steps ? steps : 0.0f;
    steps = steps < kBeyond ? steps : kBeyond;
    steps = steps > -kBeyond ? steps : -kBeyond;
    steps = (steps + kRound) - kRound + zero_point;
    steps = steps < highest ? steps : highest;
    steps = steps > lowest ? steps : lowest;
    result[i] = (steps - zero_point) * scale;
  }
}

uint16_t ReducedFloatBits(float value, const QuantParams& params) {
  const float scaled = value / params.scale;
  return params.type == TensorProto::FLOAT16 ? graph::FloatToHalf(scaled)
                                             : graph::FloatToBFloat16(scaled);
}

// Writes element `index` of a tensor of `type`.
class ElementWriter {
 public:
  ElementWriter(ElementType type, int64_t count)
      : bits_(graph::BitsPerElement(type)), bytes_((count * bits_ + 7) / 8) {}

  void Set(int64_t index, int64_t value) {
    if (bits_ == 4) {
      auto& byte = bytes_[index / 2];
      const auto half = static_cast<std::byte>(value & 0xF);
      byte |= index % 2 == 0 ? half : half << 4;
      return;
    }
    std::memcpy(bytes_.data() + index * (bits_ / 8), &value, bits_ / 8);
  }

  std::vector<std::byte> Take() && { return std::move(bytes_); }

 private:
  int bits_;
  std::vector<std::byte> bytes_;
};

int64_t Element(float value, const QuantParams& params, IntegerRange range) {
  if (IsReducedFloat(params.type)) return ReducedFloatBits(value, params);
  return static_cast<int64_t>(QuantizedAsFloat(value, params, range));
}

// Calls visit(element, channel) for every element in storage order.
template <typename Visitor>
void ForEachElement(std::span<const int64_t> dims, int axis, Visitor visit) {
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  int64_t element = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t channel = 0; channel < dims[axis]; ++channel) {
      for (int64_t i = 0; i < inner; ++i) visit(element++, channel);
    }
  }
}

}  // namespace

int64_t QuantizeValue(float value, const QuantParams& params) {
  return Element(value, params, RangeOf(params.type, true));
}

std::vector<std::byte> QuantizeValues(std::span<const float> values, const QuantParams& params) {
  const IntegerRange range = RangeOf(params.type, true);
  if (params.type == TensorProto::INT8 && params.zero_point == 0) {
    return QuantizeToInt8(values, params, range);
  }
  ElementWriter writer(params.type, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    writer.Set(static_cast<int64_t>(i), Element(values[i], params, range));
  }
  return std::move(writer).Take();
}

std::vector<std::byte> QuantizePerChannel(std::span<const float> values,
                                          std::span<const int64_t> dims, int axis,
                                          std::span<const QuantParams> params) {
  if (params.empty()) return {};
  const IntegerRange range = RangeOf(params[0].type, true);
  ElementWriter writer(params[0].type, static_cast<int64_t>(values.size()));
  ForEachElement(dims, axis, [&](int64_t element, int64_t channel) {
    writer.Set(element, Element(values[element], params[channel], range));
  });
  return std::move(writer).Take();
}

std::vector<float> RoundTrip(std::span<const float> values, const QuantParams& params) {
  std::vector<float> result(values.size());
  RoundTrip(values, params, result.data());
  return result;
}

void RoundTrip(std::span<const float> values, const QuantParams& params, float* result) {
  const IntegerRange range = RangeOf(params.type, true);
  if (!IsReducedFloat(params.type) && graph::BitsPerElement(params.type) <= 16) {
    RoundTripNarrow(values, params, range, result);
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsReducedFloat(params.type)) {
      const uint16_t bits = ReducedFloatBits(values[i], params);
      const float rounded = params.type == TensorProto::FLOAT16 ? graph::HalfToFloat(bits)
                                                                : graph::BFloat16ToFloat(bits);
      result[i] = rounded * params.scale;
    } else {
      result[i] =
          (QuantizedAsFloat(values[i], params, range) - static_cast<float>(params.zero_point)) *
          params.scale;
    }
  }
}

std::vector<float> ChannelValues(std::span<const float> values, std::span<const int64_t> dims,
                                 int axis, int64_t index) {
  std::vector<float> result;
  result.reserve(dims[axis] == 0 ? 0 : values.size() / dims[axis]);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  const int64_t stride = inner * dims[axis];
  for (int64_t start = index * inner; start < static_cast<int64_t>(values.size());
       start += stride) {
    result.insert(result.end(), values.begin() + start, values.begin() + start + inner);
  }
  return result;
}

ValueRange RangeOfValues(std::span<const float> values) {
  ValueRange range;
  bool first = true;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    range.min = first ? value : std::min(range.min, value);
    range.max = first ? value : std::max(range.max, value);
    first = false;
  }
  return range;
}

std::vector<float> ClampToFinite(std::span<const float> values, ElementType type) {
  const bool half = type == TensorProto::FLOAT16;
  const float smallest = half ? 0.0f : 1.17549435e-38f;
  const float largest = half ? 65504.0f : 3.38953139e38f;
  std::vector<float> result(values.begin(), values.end());
  for (float& value : result) {
    if (value == 0 || std::isnan(value)) continue;
    value = std::copysign(std::clamp(std::fabs(value), smallest, largest), value);
  }
  return result;
}

}  // namespace gq::quantize
