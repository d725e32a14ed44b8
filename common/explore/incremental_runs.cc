#include "common/explore/incremental_runs.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/calibrate/switched_rounding.h"
#include "common/explore/rounded_form.h"
#include "common/graph/analysis.h"
#include "common/graph/edits.h"
#include "common/graph/graph_index.h"

namespace gq::explore {
namespace {

using Digest = uint64_t;
using graph::GraphIndex;

constexpr size_t kMostCuts = 12;
constexpr int64_t kCostOfElement = 12;  // in multiply-accumulates: a pass over an activation

Digest HashBytes(std::string_view bytes) { return absl::HashOf(base::ToAbsl(bytes)); }

Digest RoundingDigest(const calibrate::Rounding& rounding) {
  return absl::HashOf(static_cast<int>(rounding.kind), rounding.scale, rounding.zero_point,
                      rounding.qmin, rounding.qmax);
}

bool HasSubgraphs(const onnx::GraphProto& graph) {
  bool found = false;
  for (const onnx::NodeProto& node : graph.node()) {
    graph::ForEachSubgraph(node, [&found](const auto&) { found = true; });
  }
  return found;
}

// Digests of all tensors: of what each is computed from.
absl::StatusOr<std::map<std::string, Digest, std::less<>>> DigestsOf(const RoundedForm& form) {
  std::map<std::string, Digest, std::less<>> digests;
  for (const onnx::TensorProto& initializer : form.model.graph().initializer()) {
    GQ_ASSIGN_OR_RETURN(const graph::TensorView view, form.model.Data(initializer));
    const auto bytes = view.bytes();
    const Digest data = HashBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    digests[initializer.name()] = absl::HashOf(view.dtype(), view.dims(), data);
  }
  for (const auto& input : form.model.graph().input()) {
    digests.try_emplace(input.name(), HashBytes(base::StrCat("input ", input.name())));
  }
  for (const onnx::NodeProto& node : form.model.graph().node()) {
    Digest digest =
        HashBytes(base::StrCat(node.domain(), ":", node.op_type(), ":", node.output_size()));
    std::map<std::string, Digest> attributes;
    for (const auto& attribute : node.attribute()) {
      attributes[attribute.name()] = HashBytes(attribute.SerializeAsString());
    }
    for (const auto& [name, value] : attributes) digest = absl::HashOf(digest, value);
    for (const std::string& input : node.input()) {
      const auto found = digests.find(input);
      if (!input.empty() && found == digests.end()) {
        return base::MakeError(base::Reason::kInternal,
                               base::StrCat("'", input, "' is read before it is made"));
      }
      digest = absl::HashOf(digest, input.empty() ? Digest{0} : found->second);
    }
    for (int i = 0; i < node.output_size(); ++i) {
      Digest own = absl::HashOf(digest, i);
      if (const auto rounding = form.roundings.find(node.output(i));
          rounding != form.roundings.end()) {
        own = absl::HashOf(own, RoundingDigest(rounding->second));
      }
      if (!node.output(i).empty()) digests[node.output(i)] = own;
    }
  }
  return digests;
}

}  // namespace

// Runs what a candidate has of its own.
class IncrementalRunner : public accuracy::CandidateRunner {
 public:
  // Where an input of the session, or an output of the model, comes from.
  struct Source {
    std::optional<size_t> position;  // among the model's inputs, or the session's outputs
    Digest kept = 0;                 // where there is no position
  };

  const std::vector<runtime::TensorInfo>& inputs() const override { return inputs_; }
  const std::vector<runtime::TensorInfo>& outputs() const override { return outputs_; }

  absl::Status Run(int64_t sample, std::span<const runtime::Tensor> inputs,
                   std::vector<runtime::Tensor>* outputs) override {
    const auto number = static_cast<size_t>(sample);
    std::vector<runtime::Tensor> given;
    given.reserve(session_inputs_.size());
    for (const Source& source : session_inputs_) {
      given.push_back(source.position ? inputs[*source.position]
                                      : owner_->kept_.at(source.kept).samples[number]);
      if (given.back().empty()) {
        return base::MakeError(base::Reason::kInternal,
                               base::StrCat("sample ", sample, " was not run before"));
      }
    }
    std::vector<runtime::Tensor> made;
    if (model_ != nullptr) GQ_RETURN_IF_ERROR(model_->session().Run(given, &made));
    outputs->clear();
    for (const Source& source : model_outputs_) {
      outputs->push_back(source.position ? made[*source.position]
                                         : owner_->kept_.at(source.kept).samples[number]);
    }
    for (const auto& [position, digest] : to_keep_) {
      owner_->kept_.at(digest).samples[number] = made[position];
    }
    return absl::OkStatus();
  }

 private:
  friend class CandidatePlan;
  IncrementalRuns* owner_ = nullptr;
  std::vector<runtime::TensorInfo> inputs_, outputs_;
  std::vector<Source> session_inputs_, model_outputs_;
  std::vector<std::pair<size_t, Digest>> to_keep_;   // session outputs
  std::unique_ptr<calibrate::SwitchedModel> model_;  // null: every output is known
};

// Makes the runner of one candidate.
class CandidatePlan {
 public:
  CandidatePlan(IncrementalRuns& owner, RoundedForm form)
      : owner_(owner),
        form_(std::move(form)),
        before_(form_.model.graph()),
        index_(before_),
        runner_(new IncrementalRunner()) {}

  absl::StatusOr<std::unique_ptr<accuracy::CandidateRunner>> Make() {
    runner_->owner_ = &owner_;
    ReadSignature();
    GQ_ASSIGN_OR_RETURN(digests_, DigestsOf(form_));
    MergeEqual();
    FindNeeded();
    if (owner_.options_.samples > 0) {
      if (!owner_.cuts_chosen_) ChooseCuts();
      FindKept();
    }
    GQ_RETURN_IF_ERROR(BuildSession());
    owner_.last_.clear();
    for (const auto& [name, digest] : digests_) owner_.last_.insert(digest);
    owner_.nodes_run_ = static_cast<int>(needed_.size());
    owner_.nodes_spared_ = before_.node_size() - owner_.nodes_run_;
    return std::unique_ptr<accuracy::CandidateRunner>(std::move(runner_));
  }

 private:
  // As a session over the file has them.
  void ReadSignature() {
    const auto add = [this](const auto& value, std::vector<runtime::TensorInfo>* infos) {
      if (!value.type().has_tensor_type() ||
          value.type().tensor_type().elem_type() == onnx::TensorProto::STRING) {
        return;
      }
      infos->push_back({.name = value.name(),
                        .dtype = value.type().tensor_type().elem_type(),
                        .shape = index_.Shape(value.name()).value_or(std::vector<int64_t>{})});
    };
    for (const auto& input : before_.input()) {
      if (!index_.IsInitializer(input.name())) add(input, &runner_->inputs_);
    }
    for (const auto& output : before_.output()) add(output, &runner_->outputs_);
  }

  // Of tensors that are computed alike the first stands for all.
  void MergeEqual() {
    const auto add = [this](const std::string& name) {
      if (!name.empty()) first_.try_emplace(digests_.at(name), name);
    };
    for (const auto& initializer : before_.initializer()) add(initializer.name());
    for (const auto& input : before_.input()) add(input.name());
    for (const onnx::NodeProto& node : before_.node()) {
      for (const std::string& output : node.output()) add(output);
    }
  }
  const std::string& First(const std::string& tensor) const {
    return tensor.empty() ? tensor : first_.at(digests_.at(tensor));
  }

  const IncrementalRuns::Kept* Known(const std::string& tensor) const {
    const auto found = owner_.kept_.find(digests_.at(tensor));
    return found != owner_.kept_.end() && found->second.complete ? &found->second : nullptr;
  }

  // Nodes without which an output cannot be made, and the tensors they start from.
  void FindNeeded() {
    std::vector<std::string> open;
    for (const runtime::TensorInfo& output : runner_->outputs_) open.push_back(First(output.name));
    std::set<std::string> seen;
    while (!open.empty()) {
      const std::string tensor = std::move(open.back());
      open.pop_back();
      if (tensor.empty() || !seen.insert(tensor).second || index_.IsInitializer(tensor)) continue;
      if (Known(tensor) != nullptr || index_.IsGraphInput(tensor)) {
        starts_.insert(tensor);
        continue;
      }
      const int node = index_.ProducerPosition(tensor);
      if (!needed_.insert(node).second) continue;
      for (const std::string& input : before_.node(node).input()) open.push_back(First(input));
    }
  }

  int64_t Bytes(const std::string& tensor) const {
    const auto shape = index_.StaticShape(tensor);
    if (!shape) return std::numeric_limits<int64_t>::max() / 4;
    return 4 * std::accumulate(shape->begin(), shape->end(), int64_t{1}, std::multiplies<>());
  }

  int64_t Cost(const onnx::NodeProto& node) const {
    int64_t cost = graph::Macs(node, index_);
    for (const std::string& output : node.output()) {
      if (const auto shape = index_.StaticShape(output)) {
        cost += kCostOfElement *
                std::accumulate(shape->begin(), shape->end(), int64_t{1}, std::multiplies<>());
      }
    }
    return cost;
  }

  // Tensors made before the node at `position` and read by it or later.
  std::vector<std::string> Frontier(int position) const {
    std::set<std::string> tensors;
    for (int i = position; i < before_.node_size(); ++i) {
      for (const std::string& input : before_.node(i).input()) {
        if (input.empty()) continue;
        const std::string& first = First(input);
        const int producer = index_.ProducerPosition(first);
        if (producer < 0 || producer >= position) continue;
        if (!constant_nodes_.contains(producer)) tensors.insert(first);
      }
    }
    return {tensors.begin(), tensors.end()};
  }

  // DequantizeLinear of constants: made anew each time.
  void FindConstantNodes() {
    for (int i = 0; i < before_.node_size(); ++i) {
      const auto& inputs = before_.node(i).input();
      const bool constant = std::all_of(inputs.begin(), inputs.end(), [this](const auto& input) {
        const int producer = index_.ProducerPosition(input);
        return input.empty() || index_.IsInitializer(input) ||
               (producer >= 0 && constant_nodes_.contains(producer));
      });
      if (constant) constant_nodes_.insert(i);
    }
  }

  // Where most work is spared for the bytes there are, when each layer is as likely to change.
  void ChooseCuts() {
    owner_.cuts_chosen_ = true;
    FindConstantNodes();
    struct Place {
      int position;
      int64_t cost;   // of what lies before
      int64_t bytes;  // a sample
    };
    std::vector<Place> places;
    int64_t cost = 0;
    for (int i = 0; i < before_.node_size(); ++i) {
      const onnx::NodeProto& node = before_.node(i);
      if (graph::IsComputeNode(node)) {
        int64_t bytes = 0;
        for (const std::string& tensor : Frontier(i)) {
          bytes += std::min(Bytes(tensor), std::numeric_limits<int64_t>::max() / 8 - bytes);
        }
        places.push_back({i, cost, std::max<int64_t>(bytes, 1)});
      }
      cost += Cost(node);
    }
    int64_t room = owner_.options_.max_bytes / owner_.options_.samples;
    std::set<size_t> chosen;
    while (chosen.size() < kMostCuts) {
      std::optional<size_t> best;
      double best_ratio = 0;
      for (size_t i = 1; i < places.size(); ++i) {
        if (chosen.contains(i) || places[i].bytes > room) continue;
        const auto next = chosen.upper_bound(i);
        const size_t end = next == chosen.end() ? places.size() : *next;
        const int64_t before = next == chosen.begin() ? 0 : places[*std::prev(next)].cost;
        const double spared =
            static_cast<double>(end - i) * static_cast<double>(places[i].cost - before);
        const double ratio = spared / static_cast<double>(places[i].bytes);
        if (best && ratio <= best_ratio) continue;
        best = i;
        best_ratio = ratio;
      }
      if (!best) break;
      chosen.insert(*best);
      room -= places[*best].bytes;
    }
    for (const size_t i : chosen) {
      owner_.cuts_.push_back(before_.node(places[i].position).name());
    }
  }

  // Tensors at the cuts, and outputs, that this candidate makes.
  void FindKept() {
    FindConstantNodes();
    const auto keep = [this](const std::string& tensor) {
      if (needed_.contains(index_.ProducerPosition(tensor))) kept_.insert(tensor);
    };
    for (const std::string& layer : owner_.cuts_) {
      const onnx::NodeProto* node = index_.FindNode(layer);
      if (node == nullptr) continue;
      for (const std::string& tensor : Frontier(index_.PositionOf(*node))) keep(tensor);
    }
    int64_t room = owner_.options_.max_bytes / owner_.options_.samples;
    for (const runtime::TensorInfo& output : runner_->outputs_) {
      room -= Bytes(First(output.name));
      if (room >= 0) keep(First(output.name));
    }
  }

  absl::Status BuildSession() {
    std::vector<std::string> made;  // outputs of the session
    const auto position_of = [&made](const std::string& tensor) {
      const auto found = std::find(made.begin(), made.end(), tensor);
      if (found != made.end()) return static_cast<size_t>(found - made.begin());
      made.push_back(tensor);
      return made.size() - 1;
    };
    for (const runtime::TensorInfo& output : runner_->outputs_) {
      const std::string& first = First(output.name);
      IncrementalRunner::Source source;
      if (Known(first) != nullptr) {
        source.kept = digests_.at(first);
      } else {
        source.position = position_of(first);
      }
      runner_->model_outputs_.push_back(source);
    }
    for (const std::string& tensor : kept_) {
      const Digest digest = digests_.at(tensor);
      auto& kept = owner_.kept_[digest];
      kept = {};
      kept.samples.resize(static_cast<size_t>(owner_.options_.samples));
      runner_->to_keep_.emplace_back(position_of(tensor), digest);
    }
    if (needed_.empty() && made.empty()) return absl::OkStatus();

    graph::Model model = form_.model;
    onnx::GraphProto* graph = model.mutable_graph();
    graph->clear_node();
    std::vector<std::string> rounded;
    for (const int position : needed_) {
      onnx::NodeProto* node = graph->add_node();
      *node = before_.node(position);
      for (std::string& input : *node->mutable_input()) {
        const std::string first = First(input);
        input = first;
      }
      for (const std::string& output : node->output()) {
        if (form_.roundings.contains(output)) rounded.push_back(output);
      }
    }
    DeclareInputs(graph);
    DeclareOutputs(made, graph);
    graph::RemoveUnusedInitializers(graph);
    runtime::SessionOptions options;
    options.optimization = runtime::OptimizationLevel::kBasic;
    options.threads = 1;
    options.spinning = false;
    GQ_ASSIGN_OR_RETURN(runner_->model_, calibrate::SwitchedModel::Create(model, rounded, options));
    for (const std::string& tensor : rounded) {
      if (runner_->model_->Set(tensor, form_.roundings.at(tensor))) continue;
      return base::MakeError(base::Reason::kInternal,
                             base::StrCat("'", tensor, "' cannot be rounded"));
    }
    return absl::OkStatus();
  }

  void DeclareInputs(onnx::GraphProto* graph) {
    graph->clear_input();
    std::set<std::string> declared;
    for (size_t i = 0; i < runner_->inputs_.size(); ++i) {
      const std::string& name = runner_->inputs_[i].name;
      if (!starts_.contains(name) || Known(name) != nullptr) continue;
      Declare(name, graph->add_input());
      declared.insert(name);
      runner_->session_inputs_.push_back({.position = i});
    }
    for (const std::string& tensor : starts_) {
      if (declared.contains(tensor)) continue;
      Declare(tensor, graph->add_input());
      runner_->session_inputs_.push_back({.position = std::nullopt, .kept = digests_.at(tensor)});
    }
    ForgetInfos(graph->input(), graph);
  }

  void DeclareOutputs(const std::vector<std::string>& made, onnx::GraphProto* graph) const {
    graph->clear_output();
    for (const std::string& tensor : made) Declare(tensor, graph->add_output());
    ForgetInfos(graph->output(), graph);
  }

  void Declare(const std::string& tensor, onnx::ValueInfoProto* info) const {
    info->set_name(tensor);
    if (const onnx::TypeProto* type = index_.Type(tensor)) *info->mutable_type() = *type;
  }

  // A tensor is described once.
  static void ForgetInfos(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& ends,
                          onnx::GraphProto* graph) {
    std::set<std::string_view> names;
    for (const auto& end : ends) names.insert(end.name());
    auto* infos = graph->mutable_value_info();
    infos->erase(std::remove_if(infos->begin(), infos->end(),
                                [&names](const auto& info) { return names.contains(info.name()); }),
                 infos->end());
  }

  IncrementalRuns& owner_;
  const RoundedForm form_;
  const onnx::GraphProto& before_;
  const GraphIndex index_;
  std::unique_ptr<IncrementalRunner> runner_;
  std::map<std::string, Digest, std::less<>> digests_;
  std::unordered_map<Digest, std::string> first_;
  std::set<int> needed_;          // positions of nodes
  std::set<std::string> starts_;  // where the session begins
  std::set<std::string> kept_;    // what later candidates may begin with
  std::set<int> constant_nodes_;  // positions
};

absl::StatusOr<std::unique_ptr<accuracy::CandidateRunner>> IncrementalRuns::Start(
    const graph::Model& model) {
  if (HasSubgraphs(model.graph())) return nullptr;
  GQ_ASSIGN_OR_RETURN(RoundedForm form, MakeRoundedForm(model));
  return CandidatePlan(*this, std::move(form)).Make();
}

void IncrementalRuns::Finish(bool complete) {
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    if (!kept->second.complete && !complete) {
      kept = kept_.erase(kept);
      continue;
    }
    kept->second.complete = true;
    ++kept;
  }
}

void IncrementalRuns::Accept() {
  base_ = last_;
  std::erase_if(kept_, [this](const auto& entry) { return !base_.contains(entry.first); });
}

void IncrementalRuns::Reject() {
  // Before anything was accepted the last one is as good as any.
  const std::unordered_set<uint64_t>& stays = base_.empty() ? last_ : base_;
  std::erase_if(kept_, [&stays](const auto& entry) { return !stays.contains(entry.first); });
}

}  // namespace gq::explore
