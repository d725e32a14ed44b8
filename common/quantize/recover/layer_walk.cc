#include "common/quantize/recover/layer_walk.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/quantize/recover/parallel.h"
#include "common/quantize/scale.h"
#include "common/quantize/scale_initializers.h"

namespace gq::quantize {
namespace {

constexpr int64_t kPositions = 400;  // a sample, up to five times as many where they are cheap
constexpr int64_t kProducts = int64_t{1} << 27;
constexpr int64_t kQuickInputs = 640;  // K; layers of more are left as they are where time counts
constexpr int64_t kMaxInputs = 4700;   // K; the moments of more do not fit into the time

std::optional<int> PositionOf(const InitializerMap& initializers, const std::string& scale_name) {
  if (scale_name.empty()) return std::nullopt;
  const float scale = initializers.Scale(scale_name);
  if (!(scale > 0) || !IsPowerOfTwo(scale)) return std::nullopt;
  return -static_cast<int>(std::lround(std::log2(scale)));
}

int BiasBits(const InitializerMap& initializers, const Layer& layer) {
  if (layer.bias.empty()) return 0;
  switch (initializers.Find(layer.bias)->data_type()) {
    case onnx::TensorProto::INT8:
      return 8;
    case onnx::TensorProto::INT16:
      return 16;
    default:
      return 32;
  }
}

LayerPositions PositionsOf(const InitializerMap& initializers, const Layer& layer) {
  LayerPositions positions;
  positions.input = PositionOf(initializers, layer.input_scale);
  positions.output = PositionOf(initializers, layer.output_scale);
  positions.weight_scale = initializers.Scale(layer.weight_scale);
  positions.bias_bits = BiasBits(initializers, layer);
  if (!layer.channel_scales.empty()) {
    positions.weight_scale = 1;
    positions.output_weights = layer.channel_scales;
    if (positions.bias_bits != 0) positions.bias_scale = initializers.Scale(layer.input_scale);
    return positions;
  }
  const bool wide = positions.bias_bits > 8;  // in units of input scale * weight scale
  positions.free_weight_scale = layer.own_weight_scale && (!wide || layer.own_bias_scale) &&
                                IsPowerOfTwo(static_cast<float>(positions.weight_scale));
  if (positions.bias_bits != 0) {
    positions.bias_scale = initializers.Scale(layer.bias_scale);
    positions.tied_bias_scale = wide;
    positions.free_bias_scale =
        layer.own_bias_scale && !wide && IsPowerOfTwo(static_cast<float>(positions.bias_scale));
  }
  return positions;
}

template <typename T>
void WriteBias(const std::vector<double>& values, onnx::TensorProto* tensor, graph::Model* model) {
  std::vector<T> integers;
  for (const double value : values) integers.push_back(static_cast<T>(value));
  model->SetData(graph::TensorView::Of<T>({tensor->dims().begin(), tensor->dims().end()}, integers),
                 tensor);
}

void Write(const Layer& layer, const LayerFit& fit, const LayerPositions& positions,
           const InitializerMap& initializers, graph::Model* model) {
  const std::vector<int8_t> weight = ToInitializer(layer.shape, fit.weights);
  model->SetData(graph::TensorView::Of<int8_t>(layer.weight_dims, weight),
                 initializers.Find(layer.weight));
  if (fit.weight_scale != positions.weight_scale) {
    initializers.SetScale(layer.weight_scale, static_cast<float>(fit.weight_scale));
  }
  if (positions.bias_bits == 0 || fit.bias.empty()) return;
  onnx::TensorProto* bias = initializers.Find(layer.bias);
  if (positions.bias_bits == 8) WriteBias<int8_t>(fit.bias, bias, model);
  if (positions.bias_bits == 16) WriteBias<int16_t>(fit.bias, bias, model);
  if (positions.bias_bits == 32) WriteBias<int32_t>(fit.bias, bias, model);
  if (fit.bias_scale != positions.bias_scale) {
    initializers.SetScale(layer.bias_scale, static_cast<float>(fit.bias_scale));
  }
}

// Outputs of a scale of their own in units of that scale, so that every weight has the scale 1 and
// every bias that of the input.
Layer InUnitsOfScales(const Layer& layer, LayerMoments* moments) {
  Layer unit = layer;
  const LayerShape& shape = layer.shape;
  std::vector<RowMatrix> floats = ToMatrices(shape, layer.float_weight);
  for (int64_t group = 0; group < shape.groups; ++group) {
    for (int64_t m = 0; m < shape.outputs; ++m) {
      const double scale = layer.channel_scales[static_cast<size_t>(group * shape.outputs + m)];
      floats[static_cast<size_t>(group)].row(m) /= scale;
      for (auto* part : {&moments->fit, &moments->check}) {
        Moments& sums = (*part)[static_cast<size_t>(group)];
        sums.y[m] /= scale;
        sums.yx.row(m) /= scale;
      }
    }
  }
  unit.float_weight = ToFloats(shape, floats);
  return unit;
}

constexpr int64_t kGroupsAtOnce = 16;  // of a layer with many

void AddTo(std::vector<Moments>& part, const LayerShape& shape, const Observations& seen,
           int threads) {
  if (shape.groups == 1) {
    part[0].Add(seen.features, seen.targets, threads);
    return;
  }
  const int64_t pieces = (shape.groups + kGroupsAtOnce - 1) / kGroupsAtOnce;
  const double operations =
      static_cast<double>(seen.features.size()) * static_cast<double>(shape.inputs + shape.outputs);
  ForEach(static_cast<size_t>(pieces), ThreadsFor(operations, threads), [&](size_t piece) {
    const int64_t first = static_cast<int64_t>(piece) * kGroupsAtOnce;
    for (int64_t group = first; group < std::min(first + kGroupsAtOnce, shape.groups); ++group) {
      part[static_cast<size_t>(group)].Add(
          seen.features.middleCols(group * shape.inputs, shape.inputs),
          seen.targets.middleCols(group * shape.outputs, shape.outputs));
    }
    return absl::OkStatus();
  }).IgnoreError();
}

absl::StatusOr<LayerMoments> Collect(const LayerShape& shape,
                                     const std::vector<runtime::Tensor>& inputs,
                                     const std::vector<runtime::Tensor>& targets, int threads) {
  const std::vector<Moments> none(static_cast<size_t>(shape.groups),
                                  Moments(shape.inputs, shape.outputs));
  LayerMoments moments = {none, none};
  const int64_t samples = std::max<int64_t>(1, static_cast<int64_t>(inputs.size()));
  const int64_t cost = shape.groups * shape.inputs * (shape.inputs + shape.outputs);
  const int64_t positions = std::max(2 * shape.inputs / samples,
                                     std::clamp(kProducts / cost, kPositions, 5 * kPositions));
  // A few samples at a time are looked at side by side, then added in their order.
  std::vector<Observations> seen(static_cast<size_t>(std::max(threads, 1)));
  for (size_t first = 0; first < inputs.size(); first += seen.size()) {
    const size_t count = std::min(seen.size(), inputs.size() - first);
    GQ_RETURN_IF_ERROR(ForEach(count, threads, [&](size_t i) -> absl::Status {
      const size_t sample = first + i;
      GQ_ASSIGN_OR_RETURN(seen[i],
                          Observe(shape, inputs[sample], targets[sample], positions, sample));
      return absl::OkStatus();
    }));
    for (size_t i = 0; i < count; ++i) {
      AddTo((first + i) % 4 == 2 ? moments.check : moments.fit, shape, seen[i], threads);
    }
  }
  if (inputs.size() < 3) moments.check = moments.fit;
  return moments;
}

}  // namespace

absl::StatusOr<std::vector<RowMatrix>> WeightIntegers(const Layer& layer,
                                                      const graph::Model& model) {
  const onnx::TensorProto* tensor = model.FindInitializer(layer.weight);
  if (tensor == nullptr) return base::MakeError(base::Reason::kInternal, "weight is gone");
  GQ_ASSIGN_OR_RETURN(const graph::TensorView view, model.Data(*tensor));
  GQ_ASSIGN_OR_RETURN(const std::vector<float> values, view.ToFloats());
  return ToMatrices(layer.shape, values);
}

absl::StatusOr<int> WalkLayers(const RecoveryData& data, RecoveryState& state,
                               const FitFunction& fit) {
  graph::Model& model = state.result.model;
  GQ_ASSIGN_OR_RETURN(const std::vector<Layer> layers, FindLayers(state.source, model));
  const InitializerMap initializers(model);
  StagedRun quantized(model, data.inputs, data.samples, data.threads);
  StagedRun floats(state.source, data.inputs, data.samples, data.threads);
  int changed = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    if (data.reporter.Cancelled()) {
      return base::MakeError(base::Reason::kCancelled, "The quantization was cancelled");
    }
    if (layer.shape.inputs > (data.quick ? kQuickInputs : kMaxInputs)) continue;
    GQ_ASSIGN_OR_RETURN(const auto inputs, quantized.Compute(layer.input));
    GQ_ASSIGN_OR_RETURN(const auto targets, floats.Compute(layer.float_output));
    GQ_ASSIGN_OR_RETURN(auto moments, Collect(layer.shape, inputs, targets, data.threads));
    const LayerPositions positions = PositionsOf(initializers, layer);
    const bool channels = !layer.channel_scales.empty();
    const Layer seen = channels ? InUnitsOfScales(layer, &moments) : layer;
    if (const auto found = fit(seen, positions, moments)) {
      Write(layer, *found, positions, initializers, &model);
      ++changed;
    }
    data.reporter.Report(
        {"Recover", static_cast<int64_t>(i) + 1, static_cast<int64_t>(layers.size()), "layers"});
  }
  return changed;
}

}  // namespace gq::quantize
