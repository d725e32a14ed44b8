#include "common/graph/branch_inlining.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"

namespace gq::graph {
namespace {

using base::StrCat;

// New names for everything that a branch makes; what it takes from outside keeps its name.
void RenameLocals(const std::unordered_map<std::string, std::string>& names,
                  onnx::GraphProto* branch) {
  for (const auto& [from, to] : names) RenameTensor(from, to, branch);
}

void MoveBranch(int position, onnx::GraphProto branch, Model* model) {
  auto* graph = model->mutable_graph();
  const onnx::NodeProto node = graph->node(position);
  NameScope scope(*graph);
  std::unordered_map<std::string, std::string> names;
  for (const auto& initializer : branch.initializer()) {
    names[initializer.name()] = scope.Unique(StrCat(node.name(), "/", initializer.name()));
  }
  for (const auto& inner : branch.node()) {
    for (const auto& output : inner.output()) {
      if (!output.empty()) names[output] = scope.Unique(StrCat(node.name(), "/", output));
    }
  }
  RenameLocals(names, &branch);

  RemoveNodes({position}, graph);
  for (auto& initializer : *branch.mutable_initializer()) {
    *graph->add_initializer() = std::move(initializer);
  }
  int at = position;
  for (auto& inner : *branch.mutable_node()) {
    inner.set_name(scope.UniqueNode(StrCat(node.name(), "/", inner.name())));
    InsertNode(at++, std::move(inner), graph);
  }
  // The outputs of the If are what the branch's outputs are called now.
  for (int i = 0; i < node.output_size() && i < branch.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    onnx::NodeProto identity =
        MakeNode("Identity", scope.UniqueNode(StrCat(node.name(), "/output_", i)),
                 {branch.output(i).name()}, {node.output(i)});
    InsertNode(at++, std::move(identity), graph);
  }
}

}  // namespace

absl::StatusOr<int> InlineConstantBranches(Model* model) {
  int count = 0;
  for (int i = 0; i < model->graph().node_size(); ++i) {
    const auto& node = model->graph().node(i);
    if (!IsOp(node, "If") || node.input_size() != 1) continue;
    const auto* condition = model->FindInitializer(node.input(0));
    if (condition == nullptr) continue;
    GQ_ASSIGN_OR_RETURN(const TensorView value, model->Data(*condition));
    if (value.size() != 1) continue;
    const auto* branch = FindAttribute(node, value.At(0) != 0 ? "then_branch" : "else_branch");
    if (branch == nullptr || !branch->has_g()) continue;
    MoveBranch(i, branch->g(), model);
    ++count;
    i = -1;  // The branch may hold the next one.
  }
  return count;
}

}  // namespace gq::graph
