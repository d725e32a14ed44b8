#include "common/graph/opset.h"

#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"
#include "common/graph/opset_steps.h"
#include "common/graph/shape_inference.h"

namespace gq::graph {
namespace {

using base::Reason;
using base::StrCat;

using Counts = std::map<std::pair<std::string, std::string>, int>;  // op, what -> nodes

absl::Status RewriteGraph(int64_t version, NameScope* names, Counts* counts,
                          onnx::GraphProto* graph) {
  // A copy, since names and types are looked up while the graph changes.
  const onnx::GraphProto before = *graph;
  const GraphIndex index(before);
  onnx::GraphProto rewritten;
  for (auto& node : *graph->mutable_node()) {
    absl::Status status;
    ForEachMutableSubgraph(&node, [&](auto* inner) {
      if (status.ok()) status = RewriteGraph(version, names, counts, inner);
    });
    GQ_RETURN_IF_ERROR(status);
    OpsetRewrite context(index, names, graph);
    for (const auto& step : OpsetSteps()) {
      if (step.version != version || !IsOp(node, step.op_type)) continue;
      GQ_RETURN_IF_ERROR(step.rewrite(&node, &context));
      ++(*counts)[{std::string(step.op_type), std::string(step.what)}];
      break;
    }
    for (auto& extra : context.before) *rewritten.add_node() = std::move(extra);
    *rewritten.add_node() = std::move(node);
    for (auto& extra : context.after) *rewritten.add_node() = std::move(extra);
  }
  graph->mutable_node()->Swap(rewritten.mutable_node());
  return absl::OkStatus();
}

bool HasSteps(int64_t version) {
  for (const auto& step : OpsetSteps()) {
    if (step.version == version) return true;
  }
  return false;
}

}  // namespace

int64_t MinIrVersion(int64_t opset) {
  if (opset >= 23) return 11;
  if (opset >= 21) return 10;
  if (opset >= 19) return 9;
  if (opset >= 15) return 8;
  if (opset >= 12) return 7;
  if (opset >= 11) return 6;
  if (opset >= 10) return 5;
  return 4;
}

absl::StatusOr<OpsetChange> ConvertOpset(int64_t target, Model* model) {
  OpsetChange change;
  change.before = model->Opset();
  change.after = change.before;
  if (target <= 0) return change;
  if (change.before == 0) {
    // A model of custom operators alone; nodes that are added later need the import.
    model->SetOpset("", target);
    change.after = target;
    return change;
  }
  if (change.before < kOldestOpset) {
    return base::MakeError(
        Reason::kModelUnsupported,
        StrCat("opset ", change.before, ", at least ", kOldestOpset, " is needed"),
        "Export the model with opset 17 or newer.");
  }
  if (change.before >= target) return change;
  if (target > kNewestOpset) {
    return base::MakeError(Reason::kInternal, StrCat("no conversion to opset ", target));
  }
  // Ranks are needed where an axis changed its meaning.
  GQ_RETURN_IF_ERROR(InferShapes(InferenceMode::kLenient, model));
  NameScope names(model->graph());
  Counts counts;
  for (int64_t version = change.before + 1; version <= target; ++version) {
    if (!HasSteps(version)) continue;
    GQ_RETURN_IF_ERROR(RewriteGraph(version, &names, &counts, model->mutable_graph()));
  }
  model->SetOpset("", target);
  if (model->proto().ir_version() < MinIrVersion(target)) {
    model->mutable_proto()->set_ir_version(MinIrVersion(target));
  }
  change.after = target;
  for (const auto& [what, nodes] : counts) {
    change.details.push_back(
        StrCat(what.first, ": ", what.second, " (", nodes, nodes == 1 ? " node)" : " nodes)"));
  }
  return change;
}

}  // namespace gq::graph
