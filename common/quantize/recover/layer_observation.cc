#include <algorithm>

#include "common/base/status.h"
#include "common/quantize/recover/layer.h"

namespace gq::quantize {
namespace {

// Splitmix64: well spread numbers from consecutive states.
uint64_t Next(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// One place in each of `count` equal stretches of 0 .. total-1.
std::vector<int64_t> Spread(int64_t total, int64_t count, uint64_t seed) {
  std::vector<int64_t> places;
  if (count >= total) count = total;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * total / count, end = (i + 1) * total / count;
    places.push_back(begin + static_cast<int64_t>(Next(seed) % static_cast<uint64_t>(end - begin)));
  }
  return places;
}

// [N, C, H, W] of an [N, C, W] or [N, C, H, W] tensor.
bool ToImage(const std::vector<int64_t>& dims, int64_t image[4]) {
  if (dims.size() != 3 && dims.size() != 4) return false;
  image[0] = dims[0];
  image[1] = dims[1];
  image[2] = dims.size() == 4 ? dims[2] : 1;
  image[3] = dims.back();
  return true;
}

absl::Status Mismatch() {
  return base::MakeError(base::Reason::kModelUnsupported,
                         "a layer's input and output do not fit its weights");
}

absl::StatusOr<Observations> ObserveDense(const LayerShape& shape, const runtime::Tensor& input,
                                          const runtime::Tensor& output, int64_t positions,
                                          uint64_t seed) {
  const int64_t rows = shape.inputs == 0 ? 0 : input.size() / shape.inputs;
  if (rows == 0 || rows * shape.inputs != input.size() || rows * shape.outputs != output.size()) {
    return Mismatch();
  }
  const auto places = Spread(rows, positions, seed);
  const auto x = input.As<float>(), y = output.As<float>();
  Observations result;
  result.features.resize(static_cast<Eigen::Index>(places.size()), shape.inputs);
  result.targets.resize(static_cast<Eigen::Index>(places.size()), shape.outputs);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    std::copy_n(x.data() + places[i] * shape.inputs, shape.inputs, result.features.row(row).data());
    std::copy_n(y.data() + places[i] * shape.outputs, shape.outputs,
                result.targets.row(row).data());
  }
  return result;
}

// Place along one axis of the input that tap `tap` of the kernel reads for output place `out`; -1
// outside.
int64_t InputPlace(const LayerShape& shape, int axis, int64_t out, int64_t tap, int64_t size) {
  int64_t place;
  if (shape.kind == LayerKind::kConv) {
    place = out * shape.stride[axis] - shape.pad[axis] + tap * shape.dilation[axis];
  } else {
    const int64_t numerator = out + shape.pad[axis] - tap * shape.dilation[axis];
    if (numerator < 0 || numerator % shape.stride[axis] != 0) return -1;
    place = numerator / shape.stride[axis];
  }
  return place < 0 || place >= size ? -1 : place;
}

absl::StatusOr<Observations> ObserveConv(const LayerShape& shape, const runtime::Tensor& input,
                                         const runtime::Tensor& output, int64_t positions,
                                         uint64_t seed) {
  int64_t in[4], out[4];
  if (!ToImage(input.shape(), in) || !ToImage(output.shape(), out) || in[0] != out[0] ||
      in[1] != shape.groups * shape.channels || out[1] != shape.groups * shape.outputs) {
    return Mismatch();
  }
  const int64_t area = out[2] * out[3];
  const auto places = Spread(out[0] * area, positions, seed);
  Observations result;
  result.features.resize(static_cast<Eigen::Index>(places.size()), shape.groups * shape.inputs);
  result.targets.resize(static_cast<Eigen::Index>(places.size()), out[1]);
  const float* x = input.As<float>().data();
  const float* y = output.As<float>().data();
  const int64_t taps = shape.kernel[0] * shape.kernel[1];
  std::vector<int64_t> offsets(static_cast<size_t>(taps));
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t image = places[i] / area, place = places[i] % area;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t h = InputPlace(shape, 0, place / out[3], tap / shape.kernel[1], in[2]);
      const int64_t w = InputPlace(shape, 1, place % out[3], tap % shape.kernel[1], in[3]);
      offsets[static_cast<size_t>(tap)] = h < 0 || w < 0 ? -1 : h * in[3] + w;
    }
    float* features = result.features.row(static_cast<Eigen::Index>(i)).data();
    for (int64_t channel = 0; channel < in[1]; ++channel) {
      const float* plane = x + (image * in[1] + channel) * in[2] * in[3];
      for (const int64_t offset : offsets) *features++ = offset < 0 ? 0.0f : plane[offset];
    }
    float* targets = result.targets.row(static_cast<Eigen::Index>(i)).data();
    for (int64_t channel = 0; channel < out[1]; ++channel) {
      targets[channel] = y[(image * out[1] + channel) * area + place];
    }
  }
  return result;
}

// Position in the initializer of output m, input k of a group.
int64_t WeightPlace(const LayerShape& shape, int64_t group, int64_t m, int64_t k) {
  if (shape.kind == LayerKind::kDense) {
    return shape.transposed_weight ? m * shape.inputs + k : k * shape.outputs + m;
  }
  if (shape.kind == LayerKind::kConv) return (group * shape.outputs + m) * shape.inputs + k;
  const int64_t taps = shape.kernel[0] * shape.kernel[1];
  const int64_t channel = group * shape.channels + k / taps;
  return (channel * shape.outputs + m) * taps + k % taps;
}

}  // namespace

absl::StatusOr<Observations> Observe(const LayerShape& shape, const runtime::Tensor& input,
                                     const runtime::Tensor& output, int64_t positions,
                                     uint64_t seed) {
  return shape.kind == LayerKind::kDense ? ObserveDense(shape, input, output, positions, seed)
                                         : ObserveConv(shape, input, output, positions, seed);
}

std::vector<RowMatrix> ToMatrices(const LayerShape& shape, const std::vector<float>& weight) {
  std::vector<RowMatrix> matrices;
  for (int64_t group = 0; group < shape.groups; ++group) {
    RowMatrix& matrix = matrices.emplace_back(shape.outputs, shape.inputs);
    for (int64_t m = 0; m < shape.outputs; ++m) {
      for (int64_t k = 0; k < shape.inputs; ++k) {
        matrix(m, k) = weight[static_cast<size_t>(WeightPlace(shape, group, m, k))];
      }
    }
  }
  return matrices;
}

namespace {

template <typename T>
std::vector<T> InOrder(const LayerShape& shape, const std::vector<RowMatrix>& matrices) {
  std::vector<T> weight(static_cast<size_t>(shape.groups * shape.outputs * shape.inputs));
  for (int64_t group = 0; group < shape.groups; ++group) {
    for (int64_t m = 0; m < shape.outputs; ++m) {
      for (int64_t k = 0; k < shape.inputs; ++k) {
        weight[static_cast<size_t>(WeightPlace(shape, group, m, k))] =
            static_cast<T>(matrices[static_cast<size_t>(group)](m, k));
      }
    }
  }
  return weight;
}

}  // namespace

std::vector<float> ToFloats(const LayerShape& shape, const std::vector<RowMatrix>& weights) {
  return InOrder<float>(shape, weights);
}

std::vector<int8_t> ToInitializer(const LayerShape& shape, const std::vector<RowMatrix>& integers) {
  return InOrder<int8_t>(shape, integers);
}

}  // namespace gq::quantize
