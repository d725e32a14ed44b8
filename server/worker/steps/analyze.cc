#include "server/worker/steps/analyze.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/compile_report.h"
#include "common/compile/device.h"
#include "common/graph/analysis.h"
#include "common/graph/optimize.h"
#include "common/runtime/constant_evaluator.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/plugins.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {
namespace {

using base::StrCat;
using nlohmann::json;

constexpr size_t kWidestName = 80;

// With blanks behind it; a longer text stays as it is.
std::string Padded(std::string_view text, size_t width) {
  std::string padded(text);
  if (padded.size() < width) padded.append(width - padded.size(), ' ');
  return padded;
}

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

// The table of feed-forward and attention blocks, one line a layer.
void LogDenseBlocks(const std::vector<graph::DenseBlock>& blocks, StepLog& log) {
  if (blocks.empty()) return;
  size_t width = 5;
  for (const graph::DenseBlock& block : blocks) {
    for (const graph::DenseLayer& layer : block.layers) {
      width = std::max(width, std::min(layer.name.size(), kWidestName));
    }
  }
  const auto line = [&](std::string_view number, std::string_view kind, std::string_view layer,
                        std::string_view in, std::string_view out, std::string_view activation) {
    std::string text = StrCat(Padded(number, 5), "  ", Padded(kind, 10), "  ", Padded(layer, width),
                              "  ", Padded(in, 6), "  ");
    base::StrAppend(&text, activation.empty() ? std::string(out) : Padded(out, 6));
    if (!activation.empty()) base::StrAppend(&text, "  ", activation);
    log.Info("Analyze", text);
  };
  line("block", "kind", "layer", "in", "out", "activation");
  for (size_t number = 0; number < blocks.size(); ++number) {
    for (const graph::DenseLayer& layer : blocks[number].layers) {
      line(StrCat(number + 1), graph::DenseBlockKindName(blocks[number].kind), layer.name,
           StrCat(layer.in), StrCat(layer.out), layer.activation);
    }
  }
}

// Class of the model and the options that the VE2 compiler would get for it, as it is now. Null
// for another device.
absl::StatusOr<json> CompilerJson(const gq::v1::JobSpec& spec, const graph::Analysis& analysis,
                                  StepLog& log) {
  const std::string device = spec.device().empty() ? "ve2" : spec.device();
  if (!compile::FindDevice(device)) return json();
  const bool fp16 =
      spec.scheme() == "fp16" || spec.scheme() == "vint8+fp16" || spec.fp_precision() == "fp16";
  const compile::Classification classification =
      compile::Classify(analysis, fp16 ? compile::FloatForm::kFp16 : compile::FloatForm::kBf16);
  compile::CompilerOptions options = compile::DefaultOptions(classification, device);
  for (const std::string& text : spec.compiler_option()) {
    GQ_RETURN_IF_ERROR(compile::ApplyOption(text, spec.consent(), options));
  }
  if (spec.edge_quant() != "auto") {
    GQ_ASSIGN_OR_RETURN(const compile::EdgeQuant edge, compile::ParseEdgeQuant(spec.edge_quant()));
    GQ_RETURN_IF_ERROR(compile::ApplyEdgeQuant(edge, spec.consent(), options));
  }
  GQ_RETURN_IF_ERROR(compile::CheckOptions(options));
  const std::string config = compile::FormatVitisaiConfig(options);
  log.Info("Analyze", StrCat("compiler class ", compile::ModelClassName(classification.model_class),
                             ": ", base::StrJoin(classification.reasons, "; ")));
  return json{{"class", compile::ModelClassName(classification.model_class)},
              {"reasons", classification.reasons},
              {"options", compile::OptionsJson(options)},
              {"vitisai_config", config}};
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
  LogDenseBlocks(graph::FindDenseBlocks(pinned.graph()), log);
  if (analysis.state == graph::ModelState::kFloat) {
    GQ_ASSIGN_OR_RETURN(const Strategy strategy, ChooseStrategy(inputs.spec, model, analysis.task));
    report["strategy"] = strategy.sentences;
    for (const std::string& sentence : strategy.sentences) log.Info("Strategy", sentence);
  } else {
    log.Info("Analyze", StrCat(analysis.quantized_compute_layers, " of ", analysis.compute_layers,
                               " compute layers are quantized, ", analysis.float_islands.size(),
                               " float islands"));
  }
  GQ_ASSIGN_OR_RETURN(report["compiler"], CompilerJson(inputs.spec, shaped, log));
  GQ_ASSIGN_OR_RETURN(report["plugins"], OfferedPlugins(inputs.spec, model, log));
  report["warnings"] = log.warnings();
  report["identity"] = IdentityJson(inputs.spec);
  return report;
}

}  // namespace gq::worker
