#include "common/quantize/recover/range_choice.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/calibrate/calibrate.h"
#include "common/quantize/recover/held_out.h"

namespace gq::quantize {
namespace {

using calibrate::Method;
using calibrate::MethodSpec;

constexpr double kPercentiles[] = {99.999, 99.99, 99.9};

bool Applies(const QuantizeConfig& config) {
  return config.dynamic == DynamicForm::kNone &&
         config.activation.scale_type == ScaleType::kFloat32 &&
         config.activation.method == CalibrationMethod::kMinMax &&
         (config.activation.type == onnx::TensorProto::INT8 ||
          config.activation.type == onnx::TensorProto::UINT8) &&
         !config.options.calib_moving_average.value_or(false);
}

// A way to cut ranges: the configuration that asks for it, and what calibration has to observe.
struct Choice {
  QuantizeConfig config;
  MethodSpec method;
};

std::vector<Choice> ChoicesFor(const QuantizeConfig& config) {
  std::vector<Choice> choices;
  for (const double percentile : kPercentiles) {
    Choice& choice = choices.emplace_back(Choice{config, MethodSpec::Default(Method::kPercentile)});
    choice.config.activation.method = CalibrationMethod::kPercentile;
    choice.config.options.percentile = percentile;
    choice.method.percentile = percentile;
    if (config.options.num_bins) choice.method.bins = *config.options.num_bins;
  }
  Choice& each =
      choices.emplace_back(Choice{config, MethodSpec::Default(Method::kLayerwisePercentile)});
  each.method.candidates = {std::begin(kPercentiles), std::end(kPercentiles)};
  each.method.candidates.push_back(100);
  each.method.squared_error = true;
  each.config.activation.method = CalibrationMethod::kLayerwisePercentile;
  each.config.options.percentile_candidates = each.method.candidates;
  each.config.options.lwp_metric = "mse";
  for (Choice& choice : choices) choice.method.symmetric = config.activation.symmetric;
  return choices;
}

// The ranges of every observed tensor by each of `choices`, beside those that are there.
absl::StatusOr<calibrate::CalibrationTable> Observe(const RecoveryData& data,
                                                    const RecoveryState& state,
                                                    const std::vector<Choice>& choices) {
  std::vector<MethodSpec> methods = state.table.methods;
  for (const Choice& choice : choices) methods.push_back(choice.method);
  std::vector<calibrate::TensorRequest> requests;
  for (const auto& [name, seen] : state.table.tensors) requests.push_back({name, seen.grid});
  base::NullReporter quiet;
  GQ_ASSIGN_OR_RETURN(const auto samples, runtime::DataSet::FromSamples(data.samples, data.inputs));
  GQ_ASSIGN_OR_RETURN(calibrate::CalibrationTable table,
                      calibrate::Calibrate(state.source, requests, methods, *samples, {}, quiet));
  // The whole range is that of all samples.
  for (auto& [name, seen] : table.tensors) {
    const auto* before = state.table.Find(name);
    if (before == nullptr) continue;
    seen.min = before->min;
    seen.max = before->max;
    for (size_t i = 0; i < before->ranges.size(); ++i) seen.ranges[i] = before->ranges[i];
  }
  table.samples = state.table.samples;
  table.skipped = state.table.skipped;
  table.data_digest = state.table.data_digest;
  return table;
}

}  // namespace

absl::StatusOr<int> RangeChoice::Run(const RecoveryData& data, RecoveryState& state) const {
  if (!Applies(state.config) || state.table.tensors.empty()) return 0;
  const std::vector<Choice> choices = ChoicesFor(state.config);
  GQ_ASSIGN_OR_RETURN(calibrate::CalibrationTable table, Observe(data, state, choices));
  GQ_ASSIGN_OR_RETURN(const HeldOut floats,
                      HeldOut::Create(data.float_model, data.samples, data.threads));
  GQ_ASSIGN_OR_RETURN(const OutputErrors before, floats.Measure(state.result.model));
  GQ_ASSIGN_OR_RETURN(const auto samples, runtime::DataSet::FromSamples(data.samples, data.inputs));
  base::NullReporter quiet;
  QuantizeInputs inputs;
  inputs.origin = data.origin;
  inputs.table = &table;
  double best = Mean(before);
  int changed = 0;
  for (const Choice& choice : choices) {
    GQ_ASSIGN_OR_RETURN(QuantizeResult result,
                        Quantize(state.source, choice.config, *samples, quiet, inputs));
    GQ_ASSIGN_OR_RETURN(const OutputErrors after, floats.Measure(result.model));
    if (Mean(after) <= best) continue;
    best = Mean(after);
    changed = static_cast<int>(table.tensors.size());
    state.config = choice.config;
    state.result = std::move(result);
  }
  if (changed > 0) state.table = std::move(table);
  return changed;
}

}  // namespace gq::quantize
