#include "server/worker/steps/strategy.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/calibrate/method.h"
#include "common/compile/device.h"
#include "common/graph/graph_index.h"
#include "common/quantize/preparation.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/scheme.h"
#include "common/quantize/settings.h"
#include "server/worker/steps/mixed_layers.h"
#include "server/worker/steps/transformer.h"

namespace gq::worker {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

bool PowerOfTwo(const quantize::QuantizeConfig& config) {
  return config.activation.scale_type == quantize::ScaleType::kPowerOfTwo;
}

// Puts --calibration-method into the configuration.
absl::Status ApplyMethod(std::string_view text, quantize::QuantizeConfig& config) {
  GQ_ASSIGN_OR_RETURN(const calibrate::MethodSpec method, calibrate::ParseMethod(text));
  if (!quantize::NeedsCalibration(config)) {
    return MakeError(
        Reason::kInvalidFlag,
        StrCat("--calibration-method ", text, " has no meaning with the scheme ", config.scheme,
               config.dynamic == quantize::DynamicForm::kNone
                   ? ": its activations are floats without a range"
                   : ": ranges of activations are found at run time"),
        "leave the flag out, or choose a scheme with static ranges");
  }
  const auto refuse = [&](std::string_view can) {
    return MakeError(
        Reason::kInvalidFlag,
        StrCat("--calibration-method ", text, " cannot be used with the scheme ", config.scheme),
        StrCat("choose one of ", can));
  };
  constexpr std::string_view kPowerOfTwoMethods = "minmse, minmax, nonoverflow";
  constexpr std::string_view kFloatMethods =
      "minmax, percentile, entropy, layerwise-percentile, moving-average";
  using calibrate::Method;
  using quantize::CalibrationMethod;
  const bool power_of_two = PowerOfTwo(config);
  CalibrationMethod& target = config.activation.method;
  config.options.calib_moving_average = false;
  switch (method.method) {
    case Method::kMinMax:
      target = CalibrationMethod::kMinMax;
      return absl::OkStatus();
    case Method::kNonOverflow:
      if (!power_of_two) return refuse(kFloatMethods);
      target = CalibrationMethod::kMinMax;
      return absl::OkStatus();
    case Method::kMinMse:
      if (!power_of_two) return refuse(kFloatMethods);
      target = CalibrationMethod::kMinMse;
      return absl::OkStatus();
    case Method::kMovingAverage:
      if (power_of_two) return refuse(kPowerOfTwoMethods);
      target = CalibrationMethod::kMinMax;
      config.options.calib_moving_average = true;
      return absl::OkStatus();
    case Method::kPercentile:
      if (power_of_two) return refuse(kPowerOfTwoMethods);
      target = CalibrationMethod::kPercentile;
      // Without a number the integer schemes cut less than Quark's presets do.
      config.options.percentile =
          text.find(':') == std::string_view::npos ? 99.9 : method.percentile;
      return absl::OkStatus();
    case Method::kEntropy:
      if (power_of_two) return refuse(kPowerOfTwoMethods);
      target = CalibrationMethod::kEntropy;
      return absl::OkStatus();
    case Method::kLayerwisePercentile:
      if (power_of_two) return refuse(kPowerOfTwoMethods);
      target = CalibrationMethod::kLayerwisePercentile;
      return absl::OkStatus();
    case Method::kDistribution:
      break;
  }
  return refuse(power_of_two ? kPowerOfTwoMethods : kFloatMethods);
}

// What run.detail.yaml says about the parameters.
absl::Status ApplyDetail(const gq::v1::QuantizeDetail& detail, Strategy& strategy) {
  quantize::QuantizeConfig& config = strategy.config;
  std::vector<std::string> said;
  if (!detail.weight_granularity().empty()) {
    const bool channel = detail.weight_granularity() == "CHANNEL";
    config.weight.granularity =
        channel ? quantize::Granularity::kChannel : quantize::Granularity::kTensor;
    said.push_back(channel ? "weights per channel" : "weights per tensor");
  }
  if (detail.weight_percentile() > 0) {
    config.options.weight_calibrate_method = StrCat("Percentile:", detail.weight_percentile());
    said.push_back(StrCat("weights up to the percentile ", detail.weight_percentile()));
  }
  if (detail.group_size() > 0) {
    if (config.dynamic != quantize::DynamicForm::kInt4Blocks) {
      return MakeError(Reason::kConfigInvalid,
                       StrCat("group_size has no meaning with the scheme ", config.scheme),
                       "it belongs to W4-A8_dynamic");
    }
    config.weight.group_size = detail.group_size();
    said.push_back(StrCat("groups of ", detail.group_size(), " weights"));
  }
  if (detail.has_activation_symmetric()) {
    config.activation.symmetric = detail.activation_symmetric();
    said.push_back(detail.activation_symmetric() ? "symmetric activations"
                                                 : "asymmetric activations");
  }
  if (!said.empty()) {
    strategy.sentences.push_back(StrCat("as the details say: ", base::StrJoin(said, ", ")));
  }
  return absl::OkStatus();
}

void Exclude(const std::vector<std::string>& nodes, quantize::QuantizeConfig& config) {
  for (const std::string& node : nodes) {
    if (std::find(config.exclude.begin(), config.exclude.end(), node) == config.exclude.end()) {
      config.exclude.push_back(node);
    }
  }
}

std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::vector<std::string> shown(names.begin(), names.begin() + std::min(names.size(), kShown));
  std::string text = base::StrJoin(shown, ", ");
  if (names.size() > kShown) base::StrAppend(&text, " and ", names.size() - kShown, " more");
  return text;
}

// A detection model computes boxes behind its last layer, which 8 bits cannot hold.
void KeepPostProcessing(const graph::Model& model, graph::TaskType task, Strategy& strategy) {
  if (task != graph::TaskType::kDetection) return;
  const std::vector<std::string> tail = graph::PostProcessingNodes(model.graph());
  if (tail.empty()) return;
  Exclude(tail, strategy.config);
  strategy.sentences.push_back(StrCat("detection model: the ", tail.size(),
                                      " nodes of its post-processing stay in float (", Some(tail),
                                      ")"));
}

// What --recover or the configuration says, else everything for int8 weights and static ranges that
// nobody configured.
std::string RecoverText(const gq::v1::JobSpec& spec, const quantize::QuantizeConfig& config) {
  if (!spec.recover().empty()) return spec.recover();
  if (config.recovery) {
    return config.recovery->empty() ? "none" : base::StrJoin(*config.recovery, ",");
  }
  const bool configured =
      !spec.config_json().empty() || !spec.config_name().empty() || !spec.compat().empty();
  const bool fits = config.weight.type == onnx::TensorProto::INT8 &&
                    config.dynamic == quantize::DynamicForm::kNone &&
                    (config.activation.type == onnx::TensorProto::INT8 ||
                     config.activation.type == onnx::TensorProto::INT16);
  return fits && !configured ? "auto" : "none";
}

absl::StatusOr<quantize::QuantizeConfig> BaseConfig(const gq::v1::JobSpec& spec,
                                                    Strategy& strategy) {
  if (!spec.config_json().empty()) {
    const std::string name =
        spec.config_file_name().empty() ? "the configuration" : spec.config_file_name();
    strategy.sentences.push_back(StrCat("as ", name, " says"));
    GQ_ASSIGN_OR_RETURN(
        quantize::ParsedConfig parsed,
        quantize::ParseQuarkJson(spec.config_json(), name, spec.compat() == "quark"));
    strategy.warnings = std::move(parsed.warnings);
    return std::move(parsed.config);
  }
  if (!spec.config_name().empty()) {
    strategy.sentences.push_back(StrCat("preset ", spec.config_name()));
    return quantize::ConfigOfPreset(spec.config_name());
  }
  const bool given = !spec.scheme().empty();
  const std::string scheme = given ? spec.scheme() : DefaultScheme(spec.device());
  const quantize::SchemeInfo* info = quantize::FindScheme(scheme);
  if (info != nullptr) {
    strategy.sentences.push_back(StrCat("scheme ", scheme, given ? "" : " (default)", ": weights ",
                                        info->weights, "; activations ", info->activations));
  }
  GQ_ASSIGN_OR_RETURN(const quantize::MixedForm form, MixedFormOf(spec));
  return quantize::ConfigOfScheme(scheme, form);
}

// Of the inputs that `user_model` leaves open and `float_model` does not.
std::map<std::string, std::vector<int64_t>> FixedShapes(const graph::Model& user_model,
                                                        const graph::Model& float_model) {
  const graph::GraphIndex open(user_model.graph()), fixed(float_model.graph());
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& input : user_model.graph().input()) {
    if (open.IsInitializer(input.name()) || open.StaticShape(input.name())) continue;
    if (auto shape = fixed.StaticShape(input.name())) shapes[input.name()] = std::move(*shape);
  }
  return shapes;
}

}  // namespace

std::string DefaultScheme(const std::string& device) {
  return device.starts_with("xnnpack") || device.starts_with("ethos-u") ? "W8-A8" : "vint8";
}

absl::StatusOr<Strategy> ChooseStrategy(const gq::v1::JobSpec& spec, const graph::Model& user_model,
                                        graph::TaskType task, const graph::Model* float_model) {
  Strategy strategy;
  GQ_ASSIGN_OR_RETURN(strategy.config, BaseConfig(spec, strategy));
  quantize::QuantizeConfig& config = strategy.config;
  if (!spec.device().empty()) {
    GQ_RETURN_IF_ERROR(quantize::CheckScheme(config.scheme, spec.device()));
  }
  if (spec.compat() == "quark") {
    config.compatibility = quantize::Compatibility::kQuark;
    strategy.sentences.push_back("compatibility quark: Quark's exact behaviour, faults included");
  }
  if (!spec.calibration_method().empty()) {
    GQ_RETURN_IF_ERROR(ApplyMethod(spec.calibration_method(), config));
    strategy.sentences.push_back(StrCat("calibration method ", spec.calibration_method()));
  }
  GQ_RETURN_IF_ERROR(ApplyDetail(spec.quantize_detail(), strategy));
  if (spec.allow_unmatched()) config.allow_unmatched = true;
  const std::vector<std::string> excluded(spec.exclude().begin(), spec.exclude().end());
  Exclude(excluded, config);
  if (!excluded.empty()) {
    strategy.sentences.push_back(StrCat("not quantized on request: ", Some(excluded)));
  }
  GQ_RETURN_IF_ERROR(KeepNamedLayers(spec, user_model, float_model, strategy));
  if (!spec.device().empty()) {
    GQ_RETURN_IF_ERROR(quantize::CheckScheme(config.scheme, spec.device()));
  }
  if (float_model != nullptr) config.input_shapes = FixedShapes(user_model, *float_model);
  const bool derived =
      spec.config_json().empty() && spec.config_name().empty() && spec.compat().empty();
  if (derived) KeepPostProcessing(user_model, task, strategy);
  if (derived && spec.scheme().empty() && PowerOfTwo(config)) {
    KeepAttention(float_model != nullptr ? *float_model : user_model, strategy);
  }
  auto recover = quantize::ParseRecover(RecoverText(spec, config));
  if (!recover.ok() && spec.recover().empty()) {
    return MakeError(Reason::kConfigInvalid,
                     "'recovery' of the configuration names what is no accuracy recovery pass",
                     base::GetHint(recover.status()));
  }
  GQ_ASSIGN_OR_RETURN(strategy.recover, std::move(recover));
  strategy.recover.bias_bits = spec.device().empty() && !config.recovery_bias_bits.empty()
                                   ? config.recovery_bias_bits
                                   : compile::WideBiasBits(spec.device());
  if (strategy.recover.bias_bits.empty()) std::erase(strategy.recover.passes, "wide-bias");
  // Ranges that were asked for, or that have no choice, stay.
  const bool no_choice = PowerOfTwo(config) && !config.recovery;
  if (spec.recover().empty() && (!spec.calibration_method().empty() || no_choice)) {
    std::erase(strategy.recover.passes, "ranges");
  }
  if (!strategy.recover.passes.empty() || config.recovery) {
    config.recovery = strategy.recover.passes;
    config.recovery_bias_bits = strategy.recover.bias_bits;
  }
  if (!strategy.recover.passes.empty()) {
    strategy.sentences.push_back(
        StrCat("accuracy recovery: ", base::StrJoin(strategy.recover.passes, ", "),
               "; each is kept only where it helps"));
  }
  return strategy;
}

absl::StatusOr<std::map<std::string, std::vector<int64_t>>> PinnedShapes(
    const gq::v1::JobSpec& spec) {
  std::map<std::string, std::vector<int64_t>> shapes;
  // `--input-shape` wins over the configuration.
  std::map<std::string, std::vector<int64_t>> saved;
  if (!spec.config_json().empty()) {
    Strategy unused;
    GQ_ASSIGN_OR_RETURN(quantize::QuantizeConfig config, BaseConfig(spec, unused));
    saved = std::move(config.input_shapes);
  }
  for (const std::string& text : spec.input_shape()) {
    const auto refuse = [&text] {
      return MakeError(Reason::kInvalidFlag,
                       StrCat("--input-shape '", text, "': expected NAME=DIMS with positive whole ",
                              "numbers, like x=1x3x224x224"));
    };
    const size_t equals = text.rfind('=');  // names may hold any character
    if (equals == std::string::npos || equals == 0) return refuse();
    std::vector<int64_t> dims;
    for (const std::string_view part :
         base::StrSplit(std::string_view(text).substr(equals + 1), 'x')) {
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), dim);
      if (error != std::errc() || end != part.data() + part.size() || dim <= 0) return refuse();
      dims.push_back(dim);
    }
    if (!shapes.emplace(text.substr(0, equals), std::move(dims)).second) {
      return MakeError(Reason::kInvalidFlag,
                       StrCat("--input-shape names input '", text.substr(0, equals), "' twice"));
    }
  }
  shapes.merge(saved);
  return shapes;
}

absl::StatusOr<graph::OptimizeOptions> OptimizeOptionsFor(const gq::v1::JobSpec& spec,
                                                          const quantize::QuantizeConfig& config) {
  graph::OptimizeOptions options = quantize::PreparationFor(config);
  GQ_ASSIGN_OR_RETURN(options.input_shapes, PinnedShapes(spec));
  return options;
}

}  // namespace gq::worker
