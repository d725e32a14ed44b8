#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/promotion.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/qdq_nodes.h"
#include "common/quantize/quark_json.h"
#include "common/quantize/spec_names.h"
#include "server/worker/steps/model_json.h"
#include "server/worker/steps/quark_engine.h"
#include "server/worker/steps/stopwatch.h"

namespace gq::worker {
namespace {

namespace fs = std::filesystem;
using base::StrCat;
using nlohmann::json;

json Numbers(const graph::Model& model, const graph::GraphIndex& index, std::string_view name) {
  const auto* tensor = index.Initializer(name);
  if (tensor == nullptr) return json::array();
  const auto view = model.Data(*tensor);
  const auto values = view.ok() ? view->ToDoubles() : view.status();
  return values.ok() ? json(*values) : json::array();
}

// What quantizers and constants of the emitted model hold, each tensor once.
json TensorsOf(const graph::Model& model) {
  const graph::GraphIndex index(model.graph());
  std::map<std::string, json> tensors;
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (!quantize::IsQdqNode(node)) continue;
    const bool constant = index.IsInitializer(node.input(0));
    if (quantize::IsDequantizeNode(node) && !constant) continue;
    const auto* zero = index.Initializer(graph::InputName(node, 2));
    tensors[node.input(0)] = {
        {"name", node.input(0)},
        {"class", constant ? "weight" : "activation"},
        {"op", node.op_type()},
        {"scale", Numbers(model, index, graph::InputName(node, 1))},
        {"zero_point", Numbers(model, index, graph::InputName(node, 2))},
        {"dtype", zero == nullptr ? "uint8" : graph::DTypeName(zero->data_type())}};
  }
  json list = json::array();
  for (auto& [name, tensor] : tensors) list.push_back(std::move(tensor));
  return list;
}

// Operators that read or write quantized tensors, and those that do not.
void AddLayers(const graph::Model& model, json& report) {
  const graph::GraphIndex index(model.graph());
  std::map<std::string, int> quantized, floats;
  json layers = json::array();
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (quantize::IsQdqNode(node)) continue;
    const bool fed = std::any_of(node.input().begin(), node.input().end(), [&](const auto& input) {
      const auto* producer = index.Producer(input);
      return producer != nullptr && quantize::IsDequantizeNode(*producer);
    });
    ++(fed ? quantized : floats)[node.op_type()];
    layers.push_back({{"node", node.name()},
                      {"op", node.op_type()},
                      {"precision", fed ? "quantized" : "float32"},
                      {"reason", "AMD Quark"},
                      {"macs", graph::Macs(node, index)}});
  }
  report["counts"] = {{"quantized", quantized}, {"float", floats}};
  report["layers"] = std::move(layers);
}

// Names of the user's nodes as the nodes of the optimized model that do their work.
quantize::QuantizeConfig Renamed(quantize::QuantizeConfig config,
                                 const GraphOptimizeResult& optimized) {
  const auto rename = [&](std::vector<std::string>& names) {
    for (std::string& name : names) {
      const auto found = optimized.renamed_nodes.find(name);
      if (found != optimized.renamed_nodes.end()) name = found->second;
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  };
  rename(config.exclude);
  for (auto& entry : config.overrides) rename(entry.targets);
  return config;
}

}  // namespace

absl::StatusOr<GraphQuantizeResult> RunQuarkQuantize(const JobInputs& inputs,
                                                     const GraphOptimizeResult& optimized,
                                                     const Strategy& strategy,
                                                     const SampleData& data, const fs::path& output,
                                                     StepLog& log) {
  Stopwatch watch;
  GQ_ASSIGN_OR_RETURN(const json versions, ProbeQuark(inputs, log));
  log.Info("Quark", StrCat("AMD Quark ", versions.value("quark", "?"), ", ONNX Runtime ",
                           versions.value("onnxruntime", "?"), ", Python ",
                           versions.value("python", "?"), " (", QuarkPython(), ")"));
  if (!strategy.recover.passes.empty()) {
    log.Info("Strategy", "accuracy recovery belongs to the built-in engine and is off");
  }
  watch.Lap("probe");
  quantize::QuantizeConfig config = Renamed(strategy.config, optimized);
  if (config.promotion) explore::Promote(*config.promotion, &config);
  config.promotion.reset();
  GQ_RETURN_IF_ERROR(
      RunQuark(inputs, config, optimized.float_model, *data.samples, output, log).status());
  watch.Lap("quark");
  GraphQuantizeResult result;
  graph::LoadOptions load;
  load.check = false;
  const auto emitted = graph::LoadModel(output, load);
  if (!emitted.ok()) return base::AddContext(emitted.status(), "what Quark wrote");
  result.emitted = *emitted;
  result.config_json = quantize::WriteQuarkJson(config);
  result.report = {{"scheme", config.scheme},
                   {"engine", "quark"},
                   {"quark", versions},
                   {"strategy", strategy.sentences},
                   {"config_digest", quantize::ConfigDigest(config)},
                   {"config", json::parse(result.config_json, nullptr, false)},
                   {"calibration",
                    {{"method", quantize::MethodNameOf(config.activation.method)},
                     {"samples", data.samples->size()},
                     {"source", data.source},
                     {"random", data.samples->random()}}},
                   {"tensors", TensorsOf(result.emitted)},
                   {"passes", json::array()}};
  AddLayers(result.emitted, result.report);
  GQ_ASSIGN_OR_RETURN(result.report["calibration"]["data_digest"], data.samples->Digest());
  const int64_t before = FileBytes(inputs.model, optimized.user_model);
  const int64_t after = FileBytes(output, result.emitted);
  result.report["sizes"] = {{"float_bytes", before},
                            {"quantized_bytes", after},
                            {"ratio_file", static_cast<double>(before) /
                                               static_cast<double>(std::max<int64_t>(after, 1))}};
  log.Info("Quantize", StrCat(output.filename().string(), " by AMD Quark"));
  result.report["warnings"] = log.warnings();
  result.report["seconds"] = watch.Seconds();
  return result;
}

}  // namespace gq::worker
