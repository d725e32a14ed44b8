#include "common/quantize/quantize.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/calibrate/calibrate.h"
#include "common/graph/analysis.h"
#include "common/graph/shape_inference.h"
#include "common/quantize/context.h"
#include "common/quantize/cramped_joins.h"
#include "common/quantize/dynamic_quantization.h"
#include "common/quantize/emit.h"
#include "common/quantize/first_samples.h"
#include "common/quantize/mask_ranges.h"
#include "common/quantize/pass.h"
#include "common/quantize/placement.h"
#include "common/quantize/qdq_insertion.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/report.h"
#include "common/quantize/resolved_config.h"
#include "common/quantize/sanity.h"
#include "common/quantize/settings.h"
#include "common/quantize/targets.h"
#include "common/quantize/topological_order.h"
#include "common/quantize/weight_check.h"

namespace gq::quantize {
namespace {

using ContextPtr = std::unique_ptr<QuantizeContext>;

std::vector<std::string> OperatorTypes(const onnx::GraphProto& graph) {
  std::vector<std::string> types;
  for (const auto& node : graph.node()) types.push_back(node.op_type());
  return types;
}

calibrate::Grid GridOf(ElementType type) {
  switch (type) {
    case onnx::TensorProto::UINT8:
      return calibrate::Grid::kUint8;
    case onnx::TensorProto::INT16:
      return calibrate::Grid::kInt16;
    case onnx::TensorProto::UINT16:
      return calibrate::Grid::kUint16;
    default:
      return calibrate::Grid::kInt8;
  }
}

// Tensors whose observation some parameter rests on, and for which grid.
std::vector<calibrate::TensorRequest> RequiredObservations(const QuantizeContext& context) {
  std::vector<calibrate::TensorRequest> requests;
  absl::flat_hash_set<std::string> seen;
  const bool shared_too = context.settings.dual_pairs || context.targets.has_overrides;
  for (const auto& planned : context.placement.tensors) {
    if (context.index.IsInitializer(planned.name)) continue;
    if (!planned.shares_with.empty() && !shared_too) continue;
    const RangeSource source = context.sources.Of(planned.name);
    if (source.fixed || !seen.insert(source.tensor).second) continue;
    const TensorOverride* override = context.targets.Override(source.tensor);
    const ElementType type = override == nullptr || IsReducedFloat(override->type)
                                 ? context.settings.activation_type
                                 : override->type;
    requests.push_back({.name = source.tensor, .grid = GridOf(type)});
  }
  return requests;
}

// Takes over what `table` knows.
void TakeRanges(const calibrate::CalibrationTable& table, QuantizeContext& context) {
  for (const auto& [name, calibration] : table.tensors) {
    context.extremes[name] = {calibration.min, calibration.max};
    if (const auto range = table.RangeOf(name, context.settings.calibration)) {
      context.observed[name] = {range->min, range->max};
    }
  }
}

// Calibrates for what is needed and not in `table` yet.
absl::Status Observe(QuantizeContext& context, runtime::DataSet& data, bool allow_nonfinite,
                     calibrate::CalibrationTable* table) {
  const calibrate::MethodSpec& method = context.settings.calibration;
  std::vector<calibrate::TensorRequest> requests = RequiredObservations(context);
  std::erase_if(requests, [&](const auto& request) {
    return table->RangeOf(request.name, method).has_value();
  });
  if (!requests.empty()) {
    calibrate::CalibrateOptions options;
    options.quark_compatible = context.settings.quark;
    options.want_digest = table->data_digest.empty();
    options.allow_nonfinite = allow_nonfinite;
    FirstSamples first(data, context.config.options.calib_data_size.value_or(data.size()));
    const bool all = first.size() == data.size() || first.size() == 0;
    GQ_ASSIGN_OR_RETURN(calibrate::CalibrationTable found,
                        calibrate::Calibrate(context.float_model, requests, std::span(&method, 1),
                                             all ? data : first, options, context.reporter));
    for (const auto& [name, reason] : found.left_out) {
      if (reason == calibrate::kWithoutElements) {
        context.observed[name] = context.extremes[name] = {0, 0};  // any range will do
        continue;
      }
      context.Warn(base::StrCat("Tensor '", name, "' was not observed: ", reason));
    }
    if (table->MethodIndex(method) == 0 && table->methods.size() == 1) {
      table->tensors.merge(found.tensors);
    } else {
      *table = std::move(found);
    }
  }
  TakeRanges(*table, context);
  return absl::OkStatus();
}

// Leaves joins in float that one scale would spoil; the context starts anew then.
absl::Status KeepCrampedJoinsFloat(ContextPtr& context, runtime::DataSet& data,
                                   bool allow_nonfinite, calibrate::CalibrationTable* table) {
  if (context->settings.quark) return absl::OkStatus();
  const std::vector<CrampedJoin> joins = FindCrampedJoins(*context);
  if (joins.empty()) return absl::OkStatus();
  Targets targets = context->targets;
  for (const auto& join : joins) {
    std::string reason = base::StrCat("stays float: one scale over the inputs of '", join.node,
                                      "' would leave '", join.input, "' fewer than 4 bits");
    const size_t behind = join.kept_float.size() - 1;
    const std::string others = behind == 0 ? ""
                               : behind == 1
                                   ? " and the node behind it"
                                   : base::StrCat(" and the ", behind, " nodes behind it");
    context->Warn(base::StrCat("'", join.node, "'", others, ": ", reason));
    for (const auto& node : join.kept_float) {
      targets.excluded.insert(node);
      targets.reasons.try_emplace(node, reason);
    }
  }
  auto fresh =
      std::make_unique<QuantizeContext>(context->float_model, context->config, context->settings,
                                        std::move(targets), context->reporter);
  fresh->warnings = std::move(context->warnings);
  fresh->config_digest = std::move(context->config_digest);
  context = std::move(fresh);
  context->placement = PlaceQuantization(context->index, context->settings, context->targets);
  return Observe(*context, data, allow_nonfinite, table);
}

class Stopwatch {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A tensor of unknown type cannot be quantized.
bool HasUnknownTypes(const onnx::GraphProto& graph) {
  const graph::GraphIndex index(graph);
  for (const auto& node : graph.node()) {
    for (const auto& output : node.output()) {
      if (!output.empty() && index.ElemType(output) == onnx::TensorProto::UNDEFINED) return true;
    }
  }
  return false;
}

// What would make a quantization pointless or is silently otherwise in Quark.
absl::Status CheckInputs(QuantizeContext& context, const runtime::DataSet& data) {
  const auto state = graph::StateOf(context.float_model.graph());
  if (state != graph::ModelState::kFloat) {
    const std::string what =
        base::StrCat("The model is quantized already (", graph::ModelStateName(state), ")");
    if (!context.settings.quark) {
      return base::MakeError(base::Reason::kAlreadyQuantized, what,
                             "Use --mode requantize, or dequantize the model first.");
    }
    context.Warn(what + "; quantizing it again, as Quark does");
  }
  if (!context.settings.quark) GQ_RETURN_IF_ERROR(CheckWeights(context.float_model, context.index));
  if (context.config.options.use_random_data.value_or(false) && !data.random()) {
    context.Warn("UseRandomData is set, but there are calibration files: the files are used");
  }
  return absl::OkStatus();
}

// Static ranges: Q/DQ nodes where the placement says so, then the passes.
absl::Status QuantizeStatically(ContextPtr& context, runtime::DataSet& data, bool allow_nonfinite,
                                calibrate::CalibrationTable* table, PhaseSeconds* seconds,
                                Stopwatch& watch) {
  context->placement = PlaceQuantization(context->index, context->settings, context->targets);
  (*seconds)["placement"] = watch.Lap();
  if (context->placement.tensors.empty()) {
    context->Warn("There is nothing to quantize; the model is written as it is");
  }
  if (context->settings.needs_calibration && !context->placement.tensors.empty()) {
    GQ_RETURN_IF_ERROR(Observe(*context, data, allow_nonfinite, table));
    GQ_RETURN_IF_ERROR(KeepCrampedJoinsFloat(context, data, allow_nonfinite, table));
  }
  (*seconds)["calibration"] = watch.Lap();
  LimitMaskRanges(*context);
  GQ_RETURN_IF_ERROR(InsertQdq(*context));
  return RunPasses(*context);
}

}  // namespace

absl::StatusOr<QuantizeResult> Quantize(const graph::Model& model, const QuantizeConfig& config,
                                        runtime::DataSet& data, base::Reporter& reporter,
                                        const QuantizeInputs& inputs) {
  Stopwatch watch;
  graph::Model float_model = model;
  if (config.compatibility == Compatibility::kQuark) {
    // The order of nodes decides about numbers of dedicated pairs and the course of alignment.
    GQ_RETURN_IF_ERROR(SortBreadthFirst(float_model.mutable_graph()));
  } else if (HasUnknownTypes(float_model.graph())) {
    GQ_RETURN_IF_ERROR(graph::InferShapes(graph::InferenceMode::kLenient, &float_model));
  }
  PhaseSeconds seconds;
  const onnx::GraphProto& users_graph =
      inputs.origin == nullptr ? model.graph() : *inputs.origin->graph;

  const graph::GraphIndex index(float_model.graph());
  GQ_ASSIGN_OR_RETURN(Targets targets, ResolveTargets(config, index, inputs.origin));
  GQ_ASSIGN_OR_RETURN(Settings settings, Resolve(config, targets.has_overrides,
                                                 OperatorTypes(users_graph), float_model.Opset()));
  GQ_ASSIGN_OR_RETURN(const QuantizeConfig resolved,
                      ResolvedConfig(config, settings, index, inputs.origin));
  ContextPtr context = std::make_unique<QuantizeContext>(float_model, config, std::move(settings),
                                                         std::move(targets), reporter);
  context->config_digest = ConfigDigest(resolved);
  for (const auto& warning : context->targets.warnings) context->Warn(warning);
  for (const auto& note : context->settings.notes) context->Warn(note);

  GQ_RETURN_IF_ERROR(CheckInputs(*context, data));
  calibrate::CalibrationTable table;
  if (inputs.table != nullptr) table = *inputs.table;
  if (config.dynamic == DynamicForm::kNone) {
    GQ_RETURN_IF_ERROR(
        QuantizeStatically(context, data, inputs.allow_nonfinite, &table, &seconds, watch));
  } else {
    GQ_RETURN_IF_ERROR(QuantizeDynamically(*context));
  }
  seconds["quantization"] = watch.Lap();
  if (reporter.Cancelled()) {
    return base::MakeError(base::Reason::kCancelled, "The quantization was cancelled");
  }

  GQ_RETURN_IF_ERROR(FinishModel(*context));
  seconds["emit"] = watch.Lap();
  nlohmann::json sanity;
  if (!context->settings.quark) {
    GQ_ASSIGN_OR_RETURN(sanity, CheckSanity(context->model, data));
    seconds["sanity"] = watch.Lap();
  }

  QuantizeResult result;
  result.report = MakeReport(*context, table, seconds);
  result.report["sanity"] = std::move(sanity);
  result.model = std::move(context->model);
  result.table = std::move(table);
  return result;
}

}  // namespace gq::quantize
