#include "server/worker/steps/analyze.h"

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/optimize.h"
#include "common/runtime/constant_evaluator.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {
namespace {

using base::StrCat;
using nlohmann::json;

json BlocksJson(const std::vector<graph::DenseBlock>& blocks) {
  json list = json::array();
  for (const graph::DenseBlock& block : blocks) {
    json layers = json::array();
    for (const graph::DenseLayer& layer : block.layers) {
      layers.push_back({{"node", layer.name},
                        {"add", layer.add},
                        {"weight", layer.weight},
                        {"in", layer.in},
                        {"out", layer.out},
                        {"activation", layer.activation}});
    }
    list.push_back({{"kind", graph::DenseBlockKindName(block.kind)}, {"layers", layers}});
  }
  return list;
}

json LayersJson(const graph::Model& model) {
  const graph::GraphIndex index(model.graph());
  json layers = json::array();
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (!graph::IsComputeNode(node)) continue;
    layers.push_back(
        {{"node", node.name()}, {"op", node.op_type()}, {"macs", graph::Macs(node, index)}});
  }
  return layers;
}

}  // namespace

absl::StatusOr<json> RunAnalyze(const JobInputs& inputs, StepLog& log) {
  GQ_ASSIGN_OR_RETURN(const graph::Model model, graph::LoadModel(inputs.model));
  for (const std::string& note : model.notes()) log.Info("Load", note);
  graph::Analysis analysis = graph::Analyze(model);

  // With static shapes more can be said; without, what there is.
  graph::Model pinned = model;
  graph::OptimizeOptions options;
  GQ_ASSIGN_OR_RETURN(options.input_shapes, PinnedShapes(inputs.spec));
  options.fuse = options.simplify = options.optimize = options.npu = false;
  options.require_static = false;
  options.to_float32 = false;
  options.min_opset = 0;
  runtime::OrtConstantEvaluator evaluator;
  base::NullReporter quiet;
  if (auto report = graph::OptimizeGraph(pinned, options, evaluator, quiet); !report.ok()) {
    log.Warn("Analyze",
             StrCat("shapes could not be pinned: ", base::FromAbsl(report.status().message())));
    pinned = model;
  }
  const graph::Analysis shaped = graph::Analyze(pinned);
  analysis.task = TaskOf(inputs.spec, shaped.task);
  analysis.task_reason = inputs.spec.task().empty() ? shaped.task_reason : "given by --task";
  analysis.macs = shaped.macs;

  log.Info("Analyze", DescribeModel(analysis));
  for (const auto& [op, count] : analysis.operators) {
    log.Info("Analyze", StrCat("operator ", op, ": ", count));
  }
  log.Info("Analyze",
           StrCat("task ", graph::TaskTypeName(analysis.task), " (", analysis.task_reason, ")"));
  json report = AnalysisJson(analysis, model);
  GQ_ASSIGN_OR_RETURN(report["model"], ModelFileJson(inputs.model, model));
  report["layers"] = LayersJson(pinned);
  report["dense_blocks"] = BlocksJson(graph::FindDenseBlocks(pinned.graph()));
  report["attention_nodes"] = graph::AttentionNodes(pinned.graph());
  report["residual_adds"] = graph::ResidualAdds(pinned.graph());
  report["post_processing"] = graph::PostProcessingNodes(pinned.graph());
  for (const graph::DenseBlock& block : graph::FindDenseBlocks(pinned.graph())) {
    std::vector<std::string> names;
    for (const graph::DenseLayer& layer : block.layers) names.push_back(layer.name);
    log.Info("Analyze",
             StrCat(graph::DenseBlockKindName(block.kind), " block: ", base::StrJoin(names, ", ")));
  }
  if (analysis.state == graph::ModelState::kFloat) {
    GQ_ASSIGN_OR_RETURN(const Strategy strategy, ChooseStrategy(inputs.spec, model, analysis.task));
    report["strategy"] = strategy.sentences;
    for (const std::string& sentence : strategy.sentences) log.Info("Strategy", sentence);
  } else {
    log.Info("Analyze", StrCat(analysis.quantized_compute_layers, " of ", analysis.compute_layers,
                               " compute layers are quantized, ", analysis.float_islands.size(),
                               " float islands"));
  }
  report["warnings"] = log.warnings();
  report["identity"] = IdentityJson(inputs.spec);
  return report;
}

}  // namespace gq::worker
