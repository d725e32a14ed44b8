#include <set>
#include <unordered_map>
#include <unordered_set>

#include "common/base/text.h"
#include "common/graph/passes.h"
#include "common/graph/shape_inference.h"
#include "common/graph/tensor_data.h"

namespace gq::graph {
namespace {

using base::StrCat;

class DuplicateRemovalPass : public Pass {
 public:
  std::string_view name() const override { return "duplicate-removal"; }
  std::string_view summary() const override {
    return "removes nodes that compute what an earlier node computes: same operator, attributes "
           "and inputs";
  }

  absl::Status Run(Model* model, PassReport* report,
                   std::map<std::string, std::string>* renamed) const override {
    auto* graph = model->mutable_graph();
    std::set<std::string, std::less<>> outputs;
    for (const auto& output : graph->output()) outputs.insert(output.name());
    std::unordered_map<std::string, int> seen;
    std::unordered_map<std::string, std::string> replaced;
    std::vector<int> gone;
    for (int i = 0; i < graph->node_size(); ++i) {
      auto* node = graph->mutable_node(i);
      // The graph is sorted: what this node reads was replaced before.
      for (auto& input : *node->mutable_input()) {
        const auto it = replaced.find(input);
        if (it != replaced.end()) input = it->second;
      }
      if (!MayMerge(*node, outputs)) continue;
      const auto [first, added] = seen.try_emplace(Key(*node), i);
      if (added) continue;
      const auto& kept = graph->node(first->second);
      for (int j = 0; j < node->output_size(); ++j) replaced[node->output(j)] = kept.output(j);
      (*renamed)[node->name()] = kept.name();
      report->details.push_back(StrCat(Describe(*node), " equals ", Describe(kept)));
      gone.push_back(i);
    }
    if (gone.empty()) return absl::OkStatus();
    report->changed += static_cast<int>(gone.size());
    RemoveNodes(std::move(gone), graph);
    // Subgraphs may read the outputs as well.
    ReplaceUses(std::move(replaced), graph);
    RemoveUnusedInitializers(graph);
    return InferShapes(InferenceMode::kLenient, model);
  }

 private:
  static bool MayMerge(const onnx::NodeProto& node,
                       const std::set<std::string, std::less<>>& outputs) {
    static const std::set<std::string, std::less<>> random = {
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Multinomial",  "Bernoulli",        "Dropout"};
    if ((!node.domain().empty() && node.domain() != "ai.onnx") || random.contains(node.op_type())) {
      return false;
    }
    // Compute layers with one weight stay apart: each may get its own precision.
    if (node.op_type() == "Conv" || node.op_type() == "Gemm" || node.op_type() == "MatMul" ||
        node.op_type() == "ConvTranspose") {
      return false;
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g() || attribute.graphs_size() > 0) return false;
    }
    for (const auto& output : node.output()) {
      if (output.empty() || outputs.contains(output)) return false;
    }
    return node.output_size() > 0;
  }

  static std::string Key(const onnx::NodeProto& node) {
    std::string key = StrCat(node.op_type(), "|", node.output_size());
    for (const auto& input : node.input()) base::StrAppend(&key, "|", input.size(), ":", input);
    std::map<std::string, std::string> attributes;
    for (const auto& attribute : node.attribute()) {
      attributes[attribute.name()] = attribute.SerializeAsString();
    }
    for (const auto& [name, text] : attributes) base::StrAppend(&key, "|", name, "=", text);
    return key;
  }
};

}  // namespace

const Pass& DuplicateRemoval() {
  static const DuplicateRemovalPass pass;
  return pass;
}

}  // namespace gq::graph
