#include "common/quantize/recover/equalization.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/graph/edits.h"
#include "common/quantize/recover/layer.h"
#include "common/runtime/session.h"

namespace gq::quantize {
namespace {

using graph::GraphIndex;

constexpr size_t kSamples = 8;
constexpr double kStrengths[] = {1, 0.5};  // by variant
// Weights behind a channel that shrinks may become larger than the layer's largest by this factor.
constexpr double kWidening = 2;

// The largest magnitude of each channel of the tensors, over a few samples.
absl::StatusOr<std::map<std::string, std::vector<float>>> Largest(
    const graph::Model& model, const ChannelClasses& classes, const std::vector<Sample>& samples) {
  graph::Model exposing = model;
  onnx::GraphProto* graph = exposing.mutable_graph();
  graph->clear_output();
  std::vector<std::string> names;
  const GraphIndex index(model.graph());
  for (const std::string& tensor : classes.tensors()) {
    if (index.Producer(tensor) == nullptr) continue;
    auto* output = graph->add_output();
    output->set_name(tensor);
    output->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    names.push_back(tensor);
  }
  std::map<std::string, std::vector<float>> largest;
  if (names.empty()) return largest;
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.spinning = false;
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(exposing, options));
  const size_t count = std::min(kSamples, samples.size());
  std::vector<runtime::Tensor> outputs;
  for (size_t i = 0; i < count; ++i) {
    GQ_RETURN_IF_ERROR(session.Run(samples[i * samples.size() / count], &outputs));
    for (size_t output = 0; output < outputs.size(); ++output) {
      const auto& shape = outputs[output].shape();
      if (shape.size() < 3) continue;
      auto& channels = largest[names[output]];
      channels.resize(static_cast<size_t>(shape[1]), 0);
      const auto values = outputs[output].As<float>();
      int64_t area = 1;
      for (size_t axis = 2; axis < shape.size(); ++axis) area *= shape[axis];
      for (size_t k = 0; k < values.size(); ++k) {
        float& channel = channels[k / static_cast<size_t>(area) % channels.size()];
        channel = std::max(channel, std::abs(values[k]));
      }
    }
  }
  return largest;
}

// Row (output channel) and column (input channel) of each element of a convolution's weight.
struct WeightMap {
  std::vector<int64_t> outputs, inputs;
};

WeightMap MapWeight(const onnx::NodeProto& node, const std::vector<int64_t>& dims) {
  const bool transposed = graph::IsOp(node, "ConvTranspose");
  const int64_t groups = graph::AttributeInt(node, "group", 1);
  int64_t taps = 1;
  for (size_t axis = 2; axis < dims.size(); ++axis) taps *= dims[axis];
  WeightMap map;
  const int64_t per_group = dims[0] / groups;
  for (int64_t first = 0; first < dims[0]; ++first) {
    for (int64_t second = 0; second < dims[1]; ++second) {
      const int64_t other = first / per_group * dims[1] + second;
      for (int64_t tap = 0; tap < taps; ++tap) {
        map.outputs.push_back(transposed ? other : first);
        map.inputs.push_back(transposed ? first : other);
      }
    }
  }
  return map;
}

class Equalizer {
 public:
  Equalizer(const RecoveryData& data, RecoveryState& state)
      : data_(data),
        state_(state),
        source_(state.source),
        index_(source_.graph()),
        constants_(source_, index_),
        classes_(index_, constants_) {}

  absl::StatusOr<int> Run(double strength) {
    GQ_ASSIGN_OR_RETURN(const auto largest, Largest(source_, classes_, data_.samples));
    for (const auto& [tensor, channels] : largest) NoteRoom(tensor, channels);
    for (int i = 0; i < source_.graph().node_size(); ++i) NoteLayer(source_.graph().node(i));
    std::map<int64_t, int> exponents;
    for (const auto& [number, room] : rooms_) {
      if (const int exponent = Exponent(room, strength); exponent != 0) {
        exponents.emplace(number, exponent);
      }
    }
    if (exponents.empty()) return 0;
    for (int i = 0; i < source_.graph().node_size(); ++i) Apply(i, exponents);
    state_.source.CompactStore();
    state_.table = {};
    state_.stale = true;
    state_.rewritten = true;
    return static_cast<int>(exponents.size());
  }

 private:
  // Binary logarithms of how far a class of channels may grow (or must shrink, below zero) before
  // it rules its tensors' scales, and how far the weights around it let it.
  struct Room {
    double activations = std::numeric_limits<double>::infinity();
    double grow = std::numeric_limits<double>::infinity();
    double shrink = std::numeric_limits<double>::infinity();
  };

  static int Exponent(const Room& room, double strength) {
    if (!std::isfinite(room.activations)) return 0;
    const double wanted = strength * room.activations;
    if (wanted >= 0)
      return static_cast<int>(std::floor(std::min(wanted, std::max(0.0, room.grow))));
    return -static_cast<int>(std::floor(std::min(-wanted, std::max(0.0, room.shrink))));
  }

  void NoteRoom(const std::string& tensor, const std::vector<float>& channels) {
    float all = 0, still = 0;
    for (size_t c = 0; c < channels.size(); ++c) {
      all = std::max(all, channels[c]);
      if (classes_.Class(tensor, static_cast<int64_t>(c)) < 0) still = std::max(still, channels[c]);
    }
    const float target = still > 0 ? still : all;
    for (size_t c = 0; c < channels.size(); ++c) {
      const int64_t number = classes_.Class(tensor, static_cast<int64_t>(c));
      if (number < 0) continue;
      Room& room = rooms_[number];
      if (channels[c] > 0) {
        room.activations =
            std::min(room.activations, static_cast<double>(std::log2(target / channels[c])));
      }
    }
  }

  bool IsConvolution(const onnx::NodeProto& node) const {
    return (graph::IsOp(node, "Conv") || graph::IsOp(node, "ConvTranspose")) &&
           IsLinearLayer(node, constants_);
  }

  int64_t ClassOf(const std::string& tensor, int64_t channel) const {
    return channel < classes_.Channels(tensor) ? classes_.Class(tensor, channel) : -1;
  }

  std::vector<int64_t> Dims(const std::string& name) const {
    const auto* tensor = index_.Initializer(name);
    return {tensor->dims().begin(), tensor->dims().end()};
  }

  void NoteLayer(const onnx::NodeProto& node) {
    if (!IsConvolution(node)) return;
    const auto weight = constants_.Values(node.input(1));
    const WeightMap map = MapWeight(node, Dims(node.input(1)));
    std::map<int64_t, float> rows, columns;
    float all = 0;
    for (size_t i = 0; i < weight.size(); ++i) {
      const float size = std::abs(weight[i]);
      all = std::max(all, size);
      rows[map.outputs[i]] = std::max(rows[map.outputs[i]], size);
      columns[map.inputs[i]] = std::max(columns[map.inputs[i]], size);
    }
    for (const auto& [m, size] : rows) {
      const int64_t number = ClassOf(node.output(0), m);
      if (number < 0 || size == 0) continue;
      Room& room = rooms_[number];
      room.grow = std::min(room.grow, static_cast<double>(std::log2(all / size)));
    }
    for (const auto& [k, size] : columns) {
      const int64_t number = ClassOf(node.input(0), k);
      if (number < 0 || size == 0) continue;
      Room& room = rooms_[number];
      room.shrink = std::min(
          room.shrink, std::log2(kWidening * static_cast<double>(all) / static_cast<double>(size)));
    }
  }

  void Apply(int position, const std::map<int64_t, int>& exponents) {
    const onnx::NodeProto& node = source_.graph().node(position);
    if (!IsConvolution(node)) return;
    const auto exponent = [&](const std::string& tensor, int64_t channel) {
      const int64_t number = ClassOf(tensor, channel);
      const auto found = number < 0 ? exponents.end() : exponents.find(number);
      return found == exponents.end() ? 0 : found->second;
    };
    std::vector<float> weight = constants_.Values(node.input(1));
    const WeightMap map = MapWeight(node, Dims(node.input(1)));
    bool changed = false;
    for (size_t i = 0; i < weight.size(); ++i) {
      const int by =
          exponent(node.output(0), map.outputs[i]) - exponent(node.input(0), map.inputs[i]);
      changed = changed || by != 0;
      weight[i] = std::ldexp(weight[i], by);
    }
    if (changed) ReplaceConstant(position, 1, weight, &state_.source);
    if (graph::InputName(node, 2).empty()) return;
    std::vector<float> bias = constants_.Values(node.input(2));
    changed = false;
    for (size_t m = 0; m < bias.size(); ++m) {
      const int by = exponent(node.output(0), static_cast<int64_t>(m));
      changed = changed || by != 0;
      bias[m] = std::ldexp(bias[m], by);
    }
    if (changed) ReplaceConstant(position, 2, bias, &state_.source);
  }

  const RecoveryData& data_;
  RecoveryState& state_;
  const graph::Model source_;  // as it was
  const GraphIndex index_;
  const ConstantReader constants_;
  const ChannelClasses classes_;
  std::map<int64_t, Room> rooms_;  // by class
};

}  // namespace

absl::StatusOr<int> EqualizeChannels::Run(const RecoveryData& data, RecoveryState& state) const {
  if (state.config.activation.scale_type != ScaleType::kPowerOfTwo) return 0;
  return Equalizer(data, state).Run(kStrengths[data.variant]);
}

}  // namespace gq::quantize
