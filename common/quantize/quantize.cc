#include "common/quantize/quantize.h"

#include <algorithm>
#include <chrono>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/calibrate/calibrate.h"
#include "common/quantize/context.h"
#include "common/quantize/emit.h"
#include "common/quantize/pass.h"
#include "common/quantize/placement.h"
#include "common/quantize/qdq_insertion.h"
#include "common/quantize/report.h"
#include "common/quantize/settings.h"
#include "common/quantize/targets.h"

namespace gq::quantize {
namespace {

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

absl::StatusOr<calibrate::CalibrationTable> Observe(QuantizeContext& context,
                                                    runtime::DataSet& data,
                                                    const QuantizeInputs& inputs) {
  const auto requests = RequiredObservations(context);
  const calibrate::MethodSpec& method = context.settings.calibration;
  const bool complete = inputs.table != nullptr &&
                        std::all_of(requests.begin(), requests.end(), [&](const auto& request) {
                          return inputs.table->RangeOf(request.name, method).has_value();
                        });
  if (complete) return *inputs.table;
  calibrate::CalibrateOptions options;
  options.quark_compatible = context.settings.quark;
  options.want_digest = true;
  return calibrate::Calibrate(context.float_model, requests, std::span(&method, 1), data, options,
                              context.reporter);
}

void TakeRanges(const calibrate::CalibrationTable& table, QuantizeContext& context) {
  for (const auto& [name, calibration] : table.tensors) {
    if (const auto range = table.RangeOf(name, context.settings.calibration)) {
      context.observed[name] = {range->min, range->max};
    }
  }
  for (const auto& [name, reason] : table.left_out) {
    context.Warn(base::StrCat("Tensor '", name, "' was not observed: ", reason));
  }
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

}  // namespace

absl::StatusOr<QuantizeResult> Quantize(const graph::Model& float_model,
                                        const QuantizeConfig& config, runtime::DataSet& data,
                                        base::Reporter& reporter, const QuantizeInputs& inputs) {
  Stopwatch watch;
  PhaseSeconds seconds;
  const onnx::GraphProto& users_graph =
      inputs.origin == nullptr ? float_model.graph() : *inputs.origin->graph;

  const graph::GraphIndex index(float_model.graph());
  GQ_ASSIGN_OR_RETURN(Targets targets, ResolveTargets(config, index, inputs.origin));
  GQ_ASSIGN_OR_RETURN(Settings settings, Resolve(config, targets.has_overrides,
                                                 OperatorTypes(users_graph), float_model.Opset()));
  QuantizeContext context(float_model, config, std::move(settings), std::move(targets), reporter);
  for (const auto& warning : context.targets.warnings) context.Warn(warning);
  for (const auto& note : context.settings.notes) context.Warn(note);

  context.placement = PlaceQuantization(context.index, context.settings, context.targets);
  seconds["placement"] = watch.Lap();

  calibrate::CalibrationTable table;
  if (context.settings.needs_calibration && !context.placement.tensors.empty()) {
    GQ_ASSIGN_OR_RETURN(table, Observe(context, data, inputs));
    TakeRanges(table, context);
  }
  seconds["calibration"] = watch.Lap();

  GQ_RETURN_IF_ERROR(InsertQdq(context));
  GQ_RETURN_IF_ERROR(RunPasses(context));
  seconds["quantization"] = watch.Lap();
  if (reporter.Cancelled()) {
    return base::MakeError(base::Reason::kCancelled, "The quantization was cancelled");
  }

  GQ_RETURN_IF_ERROR(FinishModel(context));
  seconds["emit"] = watch.Lap();

  QuantizeResult result;
  result.report = MakeReport(context, table, seconds);
  result.model = std::move(context.model);
  result.table = std::move(table);
  return result;
}

}  // namespace gq::quantize
