#include "common/graph/pass.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/shape_inference.h"

namespace gq::graph {
namespace {

using base::StrCat;

constexpr int kMaxSweeps = 1000;

// Rewrites of one sweep, applied together so that look-ups stay valid while matches are searched.
class Sweep {
 public:
  explicit Sweep(Model* model) : model_(model) {}

  bool IsFree(const PassMatch& match) const {
    return std::none_of(match.nodes.begin(), match.nodes.end(),
                        [&](int node) { return blocked_.contains(node); });
  }

  void Add(const PassMatch& match, PassRewrite rewrite, const GraphIndex& index) {
    for (const int position : match.nodes) {
      blocked_.insert(position);
      gone_.insert(position);
      const auto& node = index.node(position);
      for (const auto& input : node.input()) {
        const int producer = index.ProducerPosition(input);
        if (producer >= 0) blocked_.insert(producer);
      }
      for (const auto& output : node.output()) {
        for (const auto& use : index.Uses(output)) blocked_.insert(use.node);
      }
    }
    const int last = *std::max_element(match.nodes.begin(), match.nodes.end());
    for (auto& node : rewrite.nodes) added_[last].push_back(std::move(node));
    for (auto& [name, value] : rewrite.initializers) model_->AddInitializer(name, value);
    for (auto& pair : rewrite.replaced) replaced_.push_back(std::move(pair));
  }

  absl::Status Apply() {
    auto* graph = model_->mutable_graph();
    onnx::GraphProto rewritten;
    for (int i = 0; i < graph->node_size(); ++i) {
      if (!gone_.contains(i)) *rewritten.add_node() = std::move(*graph->mutable_node(i));
      const auto added = added_.find(i);
      if (added == added_.end()) continue;
      for (auto& node : added->second) *rewritten.add_node() = std::move(node);
    }
    graph->mutable_node()->Swap(rewritten.mutable_node());
    ReplaceAll();
    return SortTopologically(graph);
  }

 private:
  // Names of graph outputs move to the node that makes the value; everything else is a change of
  // readers.
  void ReplaceAll() {
    auto* graph = model_->mutable_graph();
    std::unordered_set<std::string> outputs;
    for (const auto& output : graph->output()) outputs.insert(output.name());
    std::unordered_map<std::string, std::string> readers;
    for (const auto& [from, to] : replaced_) {
      if (!outputs.contains(from)) readers[from] = to;
    }
    ReplaceUses(std::move(readers), graph);
    std::unordered_map<std::string, std::string> renamed;
    std::unordered_set<std::string> made;
    if (std::any_of(replaced_.begin(), replaced_.end(),
                    [&](const auto& pair) { return outputs.contains(pair.first); })) {
      for (const auto& node : graph->node())
        made.insert(node.output().begin(), node.output().end());
    }
    for (const auto& [from, to] : replaced_) {
      if (!outputs.contains(from)) continue;
      const auto moved = renamed.find(to);
      const std::string source = moved == renamed.end() ? to : moved->second;
      ReplaceUses(from, source, graph);
      if (made.contains(source) && !outputs.contains(source)) {
        RenameTensor(source, from, graph);
        made.erase(source);
        made.insert(from);
        renamed[source] = from;
      } else {
        NameScope names(*graph);
        *graph->add_node() = MakeNode("Identity", names.UniqueNode(from), {source}, {from});
        made.insert(from);
      }
    }
  }

  Model* model_;
  std::unordered_set<int> blocked_;
  std::unordered_set<int> gone_;
  std::map<int, std::vector<onnx::NodeProto>> added_;
  std::vector<std::pair<std::string, std::string>> replaced_;
};

}  // namespace

std::optional<TensorView> PassView::Constant(std::string_view tensor) const {
  const auto* initializer = index_.Initializer(tensor);
  if (initializer == nullptr) return std::nullopt;
  auto view = model_.Data(*initializer);
  if (!view.ok()) return std::nullopt;
  return *std::move(view);
}

std::optional<std::vector<float>> PassView::Floats(std::string_view tensor) const {
  const auto view = Constant(tensor);
  if (!view.has_value()) return std::nullopt;
  auto values = view->ToFloats();
  if (!values.ok()) return std::nullopt;
  return *std::move(values);
}

std::optional<std::vector<int64_t>> PassView::Ints(std::string_view tensor) const {
  const auto view = Constant(tensor);
  if (!view.has_value()) return std::nullopt;
  auto values = view->ToInts();
  if (!values.ok()) return std::nullopt;
  return *std::move(values);
}

std::optional<double> PassView::Scalar(std::string_view tensor) const {
  const auto view = Constant(tensor);
  if (!view.has_value() || view->size() != 1) return std::nullopt;
  return view->At(0);
}

int PassView::OnlyReader(int position) const {
  const auto* reader = index_.OnlyConsumer(OutputName(index_.node(position), 0));
  return reader == nullptr ? -1 : index_.PositionOf(*reader);
}

bool PassView::CanReplace(std::string_view from, std::string_view to) const {
  if (!index_.IsGraphOutput(from)) return true;
  return index_.Producer(to) != nullptr && !index_.IsGraphOutput(to);
}

absl::Status PatternPass::Run(Model* model, PassReport* report,
                              std::map<std::string, std::string>* renamed) const {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    NameScope names(model->graph());
    // The index refers to the graph as it is; nodes change only in Apply.
    const GraphIndex index(model->graph());
    const PassView view(*model, index);
    Sweep changes(model);
    int found = 0;
    for (int i = 0; i < model->graph().node_size(); ++i) {
      auto match = Find(i, view);
      if (!match.has_value() || !changes.IsFree(*match)) continue;
      for (const int position : match->nodes) names.ReleaseNode(index.node(position).name());
      GQ_ASSIGN_OR_RETURN(PassRewrite rewrite, Rewrite(*match, view, &names));
      for (const auto& node : rewrite.nodes) names.TakeNode(node.name());
      ++found;
      if (report->details.size() < kMaxPassDetails) report->details.push_back(rewrite.detail);
      for (const int position : match->nodes) {
        const std::string& old = index.node(position).name();
        if (!rewrite.successor.empty() && old != rewrite.successor) {
          (*renamed)[old] = rewrite.successor;
        }
      }
      changes.Add(*match, std::move(rewrite), index);
    }
    if (found == 0) return absl::OkStatus();
    report->changed += found;
    GQ_RETURN_IF_ERROR(changes.Apply());
    RemoveDeadNodes(model->mutable_graph());
    RemoveUnusedInitializers(model->mutable_graph());
    model->CompactStore();
    GQ_RETURN_IF_ERROR(InferShapes(InferenceMode::kLenient, model));
  }
  return base::MakeError(base::Reason::kInternal,
                         StrCat("the pass ", name(), " does not come to an end"));
}

}  // namespace gq::graph
