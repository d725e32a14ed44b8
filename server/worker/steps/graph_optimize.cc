#include "server/worker/steps/graph_optimize.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "common/accuracy/evaluation_json.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/optimize.h"
#include "common/graph/task_type.h"
#include "common/runtime/constant_evaluator.h"
#include "server/worker/steps/equivalence.h"
#include "server/worker/steps/input_shapes.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/plugins.h"
#include "server/worker/steps/sample_data.h"
#include "server/worker/steps/stopwatch.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using nlohmann::json;

std::string Shapes(const std::vector<graph::TensorInfo>& tensors) {
  std::vector<std::string> parts;
  for (const graph::TensorInfo& tensor : tensors) {
    std::vector<std::string> dims;
    for (const int64_t dim : tensor.shape) dims.push_back(dim < 0 ? "?" : StrCat(dim));
    parts.push_back(StrCat(tensor.name, " ", tensor.dtype, "[", base::StrJoin(dims, ","), "]"));
  }
  return base::StrJoin(parts, ", ");
}

// Operators of domains that gq knows nothing of.
std::string ForeignOperators(const graph::Model& model) {
  std::map<std::string, int> counts;
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (!graph::IsKnownDomain(node.domain())) {
      ++counts[StrCat(node.domain(), ".", node.op_type())];
    }
  }
  std::vector<std::string> parts;
  for (const auto& [op, count] : counts) parts.push_back(StrCat(op, " ", count));
  return base::StrJoin(parts, ", ");
}

absl::Status RefuseQuantized(const graph::Analysis& analysis) {
  std::string_view what;
  switch (analysis.state) {
    case graph::ModelState::kFloat:
      return absl::OkStatus();
    case graph::ModelState::kQdq:
      what = "it holds QuantizeLinear and DequantizeLinear nodes";
      break;
    case graph::ModelState::kSpecialized:
      what = "it holds quantization operators of com.amd.quark";
      break;
    case graph::ModelState::kQOperator:
      what = "it holds quantized operators such as QLinearConv or MatMulInteger";
      break;
  }
  return MakeError(Reason::kAlreadyQuantized, StrCat("the model is already quantized: ", what),
                   "give the float model, or strip and quantize again with --mode requantize");
}

// The model computed in another precision than float32 before it was optimized.
bool ChangedPrecision(const graph::OptimizeReport& report) {
  return std::any_of(report.passes.begin(), report.passes.end(),
                     [](const auto& pass) { return pass.name == "float32-conversion"; });
}

graph::Analysis Refine(graph::Analysis analysis, const graph::Analysis& optimized,
                       const gq::v1::JobSpec& spec) {
  // Task and cost need shapes, which are known after optimization.
  analysis.inputs = optimized.inputs;
  analysis.outputs = optimized.outputs;
  analysis.task = TaskOf(spec, optimized.task);
  analysis.task_reason = spec.task().empty() ? optimized.task_reason : "given by --task";
  if (optimized.macs > analysis.macs) analysis.macs = optimized.macs;
  return analysis;
}

}  // namespace

graph::TaskType TaskOf(const gq::v1::JobSpec& spec, graph::TaskType detected) {
  return graph::TaskFromName(spec.task()).value_or(detected);
}

std::string DescribeModel(const graph::Analysis& analysis) {
  std::vector<std::pair<int, std::string>> counts;
  for (const auto& [op, count] : analysis.operators) counts.emplace_back(-count, op);
  std::sort(counts.begin(), counts.end());
  std::vector<std::string> shown;
  for (size_t i = 0; i < counts.size() && i < 6; ++i) {
    shown.push_back(StrCat(counts[i].second, " ", -counts[i].first));
  }
  if (counts.size() > shown.size()) shown.push_back("...");
  char size[64];
  std::snprintf(size, sizeof size, "%.1f M parameters",
                static_cast<double>(analysis.parameters) / 1e6);
  return StrCat(graph::ModelStateName(analysis.state), " model, ", analysis.nodes, " nodes (",
                base::StrJoin(shown, ", "), "), ", size);
}

absl::StatusOr<GraphOptimizeResult> RunGraphOptimize(const JobInputs& inputs, StepLog& log) {
  Stopwatch watch;
  GraphOptimizeResult result;
  GQ_ASSIGN_OR_RETURN(result.user_model, graph::LoadModel(inputs.model));
  GQ_ASSIGN_OR_RETURN(const json plugins, ApplyModelPlugins(inputs, log, result.user_model));
  for (const std::string& note : result.user_model.notes()) log.Info("Load", note);
  graph::Analysis analysis = graph::Analyze(result.user_model);
  log.Info("Analyze", DescribeModel(analysis));
  GQ_RETURN_IF_ERROR(RefuseQuantized(analysis));
  if (const std::string foreign = ForeignOperators(result.user_model); !foreign.empty()) {
    log.Info("Analyze", StrCat("operators of other domains are kept as they are and are never "
                               "quantized: ",
                               foreign));
  }
  watch.Lap("load");

  GQ_ASSIGN_OR_RETURN(const Strategy strategy,
                      ChooseStrategy(inputs.spec, result.user_model, analysis.task));
  GQ_ASSIGN_OR_RETURN(graph::OptimizeOptions options,
                      OptimizeOptionsFor(inputs.spec, strategy.config));
  GQ_ASSIGN_OR_RETURN(options.input_shapes, InputShapes(inputs, result.user_model, log));
  result.float_model = result.user_model;
  runtime::OrtConstantEvaluator evaluator;
  GQ_ASSIGN_OR_RETURN(graph::OptimizeReport optimized,
                      graph::OptimizeGraph(result.float_model, options, evaluator, log));
  for (const graph::PassReport& pass : optimized.passes) {
    log.Info("Optimize", StrCat(pass.name, ": ", pass.changed, " changed"));
    for (const std::string& detail : pass.details) {
      log.Log(base::LogLevel::kDebug, "Optimize", detail);
    }
  }
  for (const std::string& warning : optimized.warnings) log.Warn("Optimize", warning);
  analysis = Refine(std::move(analysis), graph::Analyze(result.float_model), inputs.spec);
  result.task = analysis.task;
  result.renamed_nodes = std::move(optimized.renamed_nodes);
  log.Info("Analyze",
           StrCat("inputs ", Shapes(analysis.inputs), "; outputs ", Shapes(analysis.outputs)));
  log.Info("Analyze",
           StrCat("task ", graph::TaskTypeName(analysis.task), " (", analysis.task_reason, ")"));
  watch.Lap("optimize");

  // Problems of the data show here already, before any time is spent on it.
  base::NullReporter quiet;
  GQ_ASSIGN_OR_RETURN(const SampleData data,
                      OpenCalibrationData(inputs, result.float_model, quiet));
  GQ_ASSIGN_OR_RETURN(const Equivalence equivalence,
                      CheckEquivalence(result.user_model, result.float_model,
                                       ChangedPrecision(optimized), *data.samples, log));
  char text[160];
  std::snprintf(text, sizeof text,
                "the optimized model equals the given one on one sample (largest difference %.2g); "
                "FP32 baseline %.2f ms a sample on one thread",
                equivalence.max_abs, equivalence.seconds * 1e3);
  log.Info("Optimize", text);
  watch.Lap("equivalence");

  GQ_ASSIGN_OR_RETURN(json file, ModelFileJson(inputs.model, result.user_model));
  result.report = {
      {"analysis", AnalysisJson(analysis, result.user_model)},
      {"passes", PassesJson(optimized.passes)},
      {"model", std::move(file)},
      {"equivalence",
       {{"max_abs", accuracy::JsonNumber(equivalence.max_abs)},
        {"psnr_db", accuracy::JsonNumber(equivalence.psnr_db)}}},
      {"baseline", {{"seconds", equivalence.seconds}, {"threads", 1}}},
      {"renamed_nodes", result.renamed_nodes},
      {"opset", {{"before", optimized.opset_before}, {"after", optimized.opset_after}}},
      {"notes", result.user_model.notes()},
      {"warnings", log.warnings()},
      {"identity", IdentityJson(inputs.spec)}};
  if (!plugins.empty()) result.report["plugins"] = plugins;
  watch.Lap("report");
  result.report["seconds"] = watch.Seconds();
  return result;
}

absl::StatusOr<GraphOptimizeResult> TakeModelAsItIs(const JobInputs& inputs, StepLog& log) {
  GraphOptimizeResult result;
  GQ_ASSIGN_OR_RETURN(result.user_model, graph::LoadModel(inputs.model));
  const graph::Analysis analysis = graph::Analyze(result.user_model);
  log.Info("Analyze", DescribeModel(analysis));
  GQ_RETURN_IF_ERROR(RefuseQuantized(analysis));
  log.Info("Optimize", "there is no graph_optimize step: the model is taken as it is");
  GQ_ASSIGN_OR_RETURN(result.float_model, LoadStatic(inputs.model, inputs, log));
  result.task = TaskOf(inputs.spec, graph::Analyze(result.float_model).task);
  return result;
}

absl::StatusOr<graph::Model> LoadStatic(const std::filesystem::path& path, const JobInputs& inputs,
                                        base::Reporter& reporter, bool check) {
  graph::LoadOptions load;
  load.check = check;
  GQ_ASSIGN_OR_RETURN(graph::Model model, graph::LoadModel(path, load));
  for (const std::string& note : model.notes()) reporter.Info("Load", note);
  if (inputs.spec.input_shape().empty() && runtime::InputSpecs(model).ok()) return model;
  graph::OptimizeOptions options;
  GQ_ASSIGN_OR_RETURN(options.input_shapes, InputShapes(inputs, model, reporter));
  options.fuse = options.simplify = options.optimize = options.npu = false;
  options.to_float32 = false;
  options.min_opset = 0;
  runtime::OrtConstantEvaluator evaluator;
  auto report = graph::OptimizeGraph(model, options, evaluator, reporter);
  if (!report.ok()) return base::AddContext(report.status(), path.filename().string());
  return model;
}

}  // namespace gq::worker
