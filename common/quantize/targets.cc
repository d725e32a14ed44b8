#include "common/quantize/targets.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/node_patterns.h"
#include "common/quantize/quantize.h"

namespace gq::quantize {
namespace {

using NodeSet = absl::flat_hash_set<std::string>;

TensorOverride OverrideOf(const TensorSpec& spec) { return {spec.type, spec.symmetric}; }

// Leading activations take the input's type, the first constant the weight's, the next one the
// bias's.
void ApplyToNode(const onnx::NodeProto& node, const graph::GraphIndex& index,
                 const LayerConfig& layer, std::map<std::string, TensorOverride>* overrides) {
  const auto set = [&](int position, const std::optional<TensorSpec>& spec) {
    if (spec && position < node.input_size() && !node.input(position).empty()) {
      (*overrides)[node.input(position)] = OverrideOf(*spec);
    }
  };
  int position = 0;
  while (position < node.input_size() && !index.IsInitializer(node.input(position))) {
    set(position++, layer.input_tensors);
  }
  set(position, layer.weight);
  set(position + 1, layer.bias);
  if (!layer.output_tensors) return;
  for (const auto& output : node.output()) {
    if (!output.empty()) (*overrides)[output] = OverrideOf(*layer.output_tensors);
  }
}

NodeSet Renamed(const NodeSet& names, const ModelOrigin& origin) {
  NodeSet renamed;
  for (const auto& name : names) {
    const auto it = origin.renamed_nodes.find(name);
    renamed.insert(it == origin.renamed_nodes.end() ? name : it->second);
  }
  return renamed;
}

NodeSet NodesOfTypes(const onnx::GraphProto& graph, const std::vector<std::string>& types) {
  NodeSet names;
  for (const auto& node : graph.node()) {
    if (std::find(types.begin(), types.end(), node.op_type()) != types.end()) {
      names.insert(node.name());
    }
  }
  return names;
}

class Resolver {
 public:
  Resolver(const QuantizeConfig& config, const graph::GraphIndex& index, const ModelOrigin* origin)
      : config_(config),
        index_(index),
        origin_(origin),
        named_(origin == nullptr ? index.graph() : *origin->graph),
        quark_(config.compatibility == Compatibility::kQuark) {}

  absl::StatusOr<Targets> Run() && {
    GQ_RETURN_IF_ERROR(Exclude());
    GQ_RETURN_IF_ERROR(Override());
    targets_.has_overrides = !targets_.overrides.empty();
    DropStale();
    return std::move(targets_);
  }

 private:
  absl::StatusOr<NodeSet> Match(const std::vector<std::string>& names) {
    // A derived configuration also names nodes that only the optimized model has.
    std::vector<std::string> patterns;
    NodeSet optimized;
    for (const auto& name : names) {
      if (origin_ != nullptr && !quark_ && !OfUsersModel(name) &&
          index_.FindNode(name) != nullptr) {
        optimized.insert(name);
      } else {
        patterns.push_back(name);
      }
    }
    GQ_ASSIGN_OR_RETURN(
        NodeSet matched,
        MatchNodes(named_, patterns, {.quark = quark_, .allow_unmatched = config_.allow_unmatched},
                   &targets_.warnings));
    matched.insert(optimized.begin(), optimized.end());
    return matched;
  }

  bool OfUsersModel(const std::string& name) {
    if (users_nodes_.empty()) {
      for (const auto& node : named_.node()) users_nodes_.insert(node.name());
    }
    return users_nodes_.contains(name);
  }

  // Names of the user's model as names of the model at hand.
  NodeSet Carried(NodeSet names) const {
    return origin_ == nullptr || quark_ ? std::move(names) : Renamed(names, *origin_);
  }

  absl::Status Exclude() {
    GQ_ASSIGN_OR_RETURN(NodeSet names, Match(config_.exclude));
    for (const auto& [starts, ends] : config_.exclude_subgraphs) {
      GQ_ASSIGN_OR_RETURN(const NodeSet region, NodesBetween(named_, starts, ends));
      names.insert(region.begin(), region.end());
    }
    targets_.excluded = Carried(std::move(names));
    if (origin_ == nullptr) return absl::OkStatus();
    for (const auto& name : targets_.excluded) {
      if (index_.FindNode(name) != nullptr) continue;
      targets_.warnings.push_back(
          base::StrCat("Excluded node '", name,
                       "' is not in the optimized model, so nothing is excluded for it"));
    }
    return absl::OkStatus();
  }

  absl::Status Override() {
    for (const auto& entry : config_.type_overrides) {
      Apply(NodesOfTypes(named_, entry.targets), entry.layer);
    }
    for (const auto& entry : config_.overrides) {
      GQ_ASSIGN_OR_RETURN(NodeSet names, Match(entry.targets));
      Apply(std::move(names), entry.layer);
    }
    for (const auto& [tensor, override] : config_.tensor_overrides) {
      targets_.overrides[tensor] = override;
      if (index_.IsInitializer(tensor)) continue;
      for (const auto& use : index_.Uses(tensor)) {
        targets_.mixed_nodes.insert(index_.node(use.node).name());
      }
    }
    return absl::OkStatus();
  }

  void Apply(NodeSet names, const LayerConfig& layer) {
    names = Carried(std::move(names));
    // Quark reads the tensors of a layer in the user's model.
    const onnx::GraphProto& graph = quark_ ? named_ : index_.graph();
    const graph::GraphIndex index(graph);
    for (const auto& node : graph.node()) {
      if (!node.name().empty() && names.contains(node.name())) {
        ApplyToNode(node, index, layer, &targets_.overrides);
      }
    }
    targets_.mixed_nodes.insert(names.begin(), names.end());
  }

  void DropStale() {
    for (auto it = targets_.overrides.begin(); it != targets_.overrides.end();) {
      if (index_.Exists(it->first)) {
        ++it;
        continue;
      }
      targets_.warnings.push_back(
          base::StrCat("Tensor '", it->first,
                       "' has a type of its own but is not in the optimized model; dropped"));
      it = targets_.overrides.erase(it);
    }
  }

  const QuantizeConfig& config_;
  const graph::GraphIndex& index_;
  const ModelOrigin* origin_;
  const onnx::GraphProto& named_;
  bool quark_;
  NodeSet users_nodes_;
  Targets targets_;
};

}  // namespace

absl::StatusOr<Targets> ResolveTargets(const QuantizeConfig& config, const graph::GraphIndex& index,
                                       const ModelOrigin* origin) {
  return Resolver(config, index, origin).Run();
}

}  // namespace gq::quantize
