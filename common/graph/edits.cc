#include "common/graph/edits.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "common/base/text.h"
#include "common/graph/graph_index.h"

namespace gq::graph {
namespace {

void CollectNames(const onnx::GraphProto& graph, std::set<std::string, std::less<>>* tensors,
                  std::set<std::string, std::less<>>* nodes) {
  for (const auto& input : graph.input()) tensors->insert(input.name());
  for (const auto& output : graph.output()) tensors->insert(output.name());
  for (const auto& info : graph.value_info()) tensors->insert(info.name());
  for (const auto& initializer : graph.initializer()) tensors->insert(initializer.name());
  for (const auto& node : graph.node()) {
    nodes->insert(node.name());
    tensors->insert(node.input().begin(), node.input().end());
    tensors->insert(node.output().begin(), node.output().end());
    ForEachSubgraph(node, [&](const auto& inner) { CollectNames(inner, tensors, nodes); });
  }
}

bool Defines(const onnx::GraphProto& graph, std::string_view name) {
  const auto named = [&](const auto& item) { return item.name() == name; };
  return std::any_of(graph.input().begin(), graph.input().end(), named) ||
         std::any_of(graph.initializer().begin(), graph.initializer().end(), named) ||
         std::any_of(graph.node().begin(), graph.node().end(), [&](const auto& node) {
           return std::find(node.output().begin(), node.output().end(), name) !=
                  node.output().end();
         });
}

using Replacements = std::unordered_map<std::string, std::string>;

void Replace(const Replacements& names, std::string* name) {
  const auto it = names.find(*name);
  if (it != names.end()) *name = it->second;
}

void ReplaceUsesInNodes(const Replacements& names, onnx::GraphProto* graph) {
  for (auto& node : *graph->mutable_node()) {
    for (auto& input : *node.mutable_input()) Replace(names, &input);
    ForEachMutableSubgraph(&node, [&](onnx::GraphProto* inner) {
      // A body may use a name for a tensor of its own.
      Replacements outer = names;
      for (const auto& [from, to] : names) {
        if (Defines(*inner, from)) outer.erase(from);
      }
      ReplaceUsesInNodes(outer, inner);
      for (auto& output : *inner->mutable_output()) Replace(outer, output.mutable_name());
    });
  }
}

onnx::AttributeProto* SetOrAdd(std::string_view name, onnx::AttributeProto::AttributeType type,
                               onnx::NodeProto* node) {
  RemoveAttribute(name, node);
  auto* attribute = node->add_attribute();
  attribute->set_name(std::string(name));
  attribute->set_type(type);
  return attribute;
}

void CollectUsed(const onnx::GraphProto& graph, std::unordered_set<std::string>* used) {
  for (const auto& output : graph.output()) used->insert(output.name());
  for (const auto& node : graph.node()) {
    used->insert(node.input().begin(), node.input().end());
    ForEachSubgraph(node, [&](const auto& inner) { CollectUsed(inner, used); });
  }
}

// `wanted` when it is free, else the first free of wanted_1, wanted_2, ... `next` remembers where
// the search for this stem ended; names must not become free meanwhile.
template <typename Taken>
std::string FirstFree(std::string_view wanted, std::map<std::string, int, std::less<>>* next,
                      Taken taken) {
  std::string name(wanted);
  if (!taken(name)) return name;
  int& number = next->try_emplace(name, 1).first->second;
  do {
    name = base::StrCat(wanted, "_", number++);
  } while (taken(name));
  return name;
}

template <typename Item, typename Keep>
int KeepOnly(google::protobuf::RepeatedPtrField<Item>* items, Keep keep) {
  int kept = 0;
  for (int i = 0; i < items->size(); ++i) {
    if (!keep(items->Get(i))) continue;
    if (kept != i) items->SwapElements(kept, i);
    ++kept;
  }
  const int removed = items->size() - kept;
  items->DeleteSubrange(kept, removed);
  return removed;
}

void SetTensorType(int32_t elem_type, const std::vector<int64_t>& dims,
                   onnx::ValueInfoProto* info) {
  info->clear_type();
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(elem_type);
  type->mutable_shape();
  for (const int64_t dim : dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
}

int RemoveDeadNodesOnce(onnx::GraphProto* graph) {
  std::unordered_set<std::string> used;
  for (const auto& output : graph->output()) used.insert(output.name());
  // Backwards over a sorted graph one pass finds everything; over an unsorted one it is repeated.
  std::vector<bool> live(graph->node_size(), false);
  bool changed = true;
  while (changed) {
    changed = false;
    for (int i = graph->node_size() - 1; i >= 0; --i) {
      if (live[i]) continue;
      const auto& node = graph->node(i);
      if (std::none_of(node.output().begin(), node.output().end(), [&](const auto& output) {
            return !output.empty() && used.contains(output);
          })) {
        continue;
      }
      live[i] = true;
      changed = true;
      used.insert(node.input().begin(), node.input().end());
      for (auto& name : CapturedNames(node)) used.insert(std::move(name));
    }
  }
  int i = 0;
  return KeepOnly(graph->mutable_node(), [&](const auto&) { return live[i++]; });
}

}  // namespace

NameScope::NameScope(const onnx::GraphProto& graph) { CollectNames(graph, &tensors_, &nodes_); }

std::string NameScope::Unique(std::string_view wanted) {
  std::string name = FirstFree(wanted, &next_, [&](const std::string& candidate) {
    return tensors_.contains(candidate) || nodes_.contains(candidate);
  });
  tensors_.insert(name);
  nodes_.insert(name);
  return name;
}

std::string NameScope::UniqueNode(std::string_view wanted) {
  std::string name = FirstFree(wanted, &next_node_, [&](const std::string& candidate) {
    return nodes_.contains(candidate);
  });
  nodes_.insert(name);
  return name;
}

void NameScope::ReleaseNode(std::string_view name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return;
  nodes_.erase(it);
  // A number below may be free now.
  next_.clear();
  next_node_.clear();
}

onnx::NodeProto MakeNode(std::string_view op_type, std::string_view name,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, std::string_view domain) {
  onnx::NodeProto node;
  node.set_op_type(std::string(op_type));
  node.set_name(std::string(name));
  if (!domain.empty()) node.set_domain(std::string(domain));
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}

void SetAttribute(std::string_view name, int64_t value, onnx::NodeProto* node) {
  SetOrAdd(name, onnx::AttributeProto::INT, node)->set_i(value);
}

void SetAttribute(std::string_view name, float value, onnx::NodeProto* node) {
  SetOrAdd(name, onnx::AttributeProto::FLOAT, node)->set_f(value);
}

void SetAttribute(std::string_view name, std::string_view value, onnx::NodeProto* node) {
  SetOrAdd(name, onnx::AttributeProto::STRING, node)->set_s(std::string(value));
}

void SetAttribute(std::string_view name, const std::vector<int64_t>& value, onnx::NodeProto* node) {
  auto* attribute = SetOrAdd(name, onnx::AttributeProto::INTS, node);
  for (const int64_t element : value) attribute->add_ints(element);
}

void RemoveAttribute(std::string_view name, onnx::NodeProto* node) {
  KeepOnly(node->mutable_attribute(),
           [&](const auto& attribute) { return attribute.name() != name; });
}

void InsertNode(int position, onnx::NodeProto node, onnx::GraphProto* graph) {
  *graph->add_node() = std::move(node);
  for (int i = graph->node_size() - 1; i > position; --i) {
    graph->mutable_node()->SwapElements(i, i - 1);
  }
}

void RemoveNodes(std::vector<int> positions, onnx::GraphProto* graph) {
  std::vector<bool> gone(graph->node_size(), false);
  for (const int position : positions) gone[position] = true;
  int i = 0;
  KeepOnly(graph->mutable_node(), [&](const auto&) { return !gone[i++]; });
}

void ReplaceUses(std::string_view from, std::string_view to, onnx::GraphProto* graph) {
  ReplaceUsesInNodes({{std::string(from), std::string(to)}}, graph);
}

void ReplaceUses(Replacements names, onnx::GraphProto* graph) {
  for (auto& [from, to] : names) {
    std::unordered_set<std::string> seen{from};
    for (auto it = names.find(to); it != names.end() && seen.insert(to).second;
         it = names.find(to)) {
      to = it->second;
    }
  }
  if (!names.empty()) ReplaceUsesInNodes(names, graph);
}

void RenameTensor(std::string_view from, std::string_view to, onnx::GraphProto* graph) {
  const std::string old(from);
  const std::string renamed(to);
  ReplaceUsesInNodes({{old, renamed}}, graph);
  const auto rename = [&](auto* items) {
    for (auto& item : *items) {
      if (item.name() == old) item.set_name(renamed);
    }
  };
  KeepOnly(graph->mutable_value_info(), [&](const auto& info) { return info.name() != renamed; });
  rename(graph->mutable_value_info());
  rename(graph->mutable_initializer());
  rename(graph->mutable_input());
  rename(graph->mutable_output());
  for (auto& node : *graph->mutable_node()) {
    for (auto& output : *node.mutable_output()) {
      if (output == old) output = renamed;
    }
  }
}

bool BypassNode(int position, std::string_view input, onnx::GraphProto* graph) {
  const std::string source(input);
  const std::string output = graph->node(position).output(0);
  const auto is_output = [&](const std::string& name) {
    return std::any_of(graph->output().begin(), graph->output().end(),
                       [&](const auto& info) { return info.name() == name; });
  };
  if (!is_output(output)) {
    RemoveNodes({position}, graph);
    ReplaceUses(output, source, graph);
    return true;
  }
  const bool made_by_node =
      std::any_of(graph->node().begin(), graph->node().end(), [&](const auto& node) {
        return std::find(node.output().begin(), node.output().end(), source) != node.output().end();
      });
  if (!made_by_node || is_output(source)) return false;
  RemoveNodes({position}, graph);
  RenameTensor(source, output, graph);
  return true;
}

int RemoveDeadNodes(onnx::GraphProto* graph) {
  int removed = RemoveDeadNodesOnce(graph);
  for (auto& node : *graph->mutable_node()) {
    ForEachMutableSubgraph(&node, [&](auto* inner) { removed += RemoveDeadNodes(inner); });
  }
  return removed;
}

int RemoveUnusedInitializers(onnx::GraphProto* graph) {
  std::unordered_set<std::string> used;
  CollectUsed(*graph, &used);
  const int removed = KeepOnly(graph->mutable_initializer(), [&](const auto& initializer) {
    return used.contains(initializer.name());
  });
  std::unordered_set<std::string> made;
  for (const auto& node : graph->node()) made.insert(node.output().begin(), node.output().end());
  KeepOnly(graph->mutable_value_info(),
           [&](const auto& info) { return made.contains(info.name()); });
  return removed;
}

int MakeNodeNamesUnique(onnx::GraphProto* graph) {
  // Names given by the user are taken first, so that a made-up one never pushes them aside.
  std::set<std::string, std::less<>> given;
  std::set<std::string, std::less<>> tensors;
  CollectNames(*graph, &tensors, &given);
  std::set<std::string, std::less<>> taken;
  std::map<std::string, int, std::less<>> next;
  int changed = 0;
  const auto visit = [&](auto& self, onnx::GraphProto* current) -> void {
    for (auto& node : *current->mutable_node()) {
      if (!node.name().empty() && taken.insert(node.name()).second) {
        ForEachMutableSubgraph(&node, [&](auto* inner) { self(self, inner); });
        continue;
      }
      std::string wanted = node.name();
      if (wanted.empty()) {
        wanted =
            node.output_size() > 0 && !node.output(0).empty() ? node.output(0) : node.op_type();
      }
      const std::string name = FirstFree(wanted, &next, [&](const std::string& candidate) {
        return given.contains(candidate) || taken.contains(candidate);
      });
      taken.insert(name);
      node.set_name(name);
      ++changed;
      ForEachMutableSubgraph(&node, [&](auto* inner) { self(self, inner); });
    }
  };
  visit(visit, graph);
  return changed;
}

void AddValueInfo(std::string_view tensor, int32_t elem_type, const std::vector<int64_t>& dims,
                  onnx::GraphProto* graph) {
  onnx::ValueInfoProto* info = graph->add_value_info();
  info->set_name(std::string(tensor));
  SetTensorType(elem_type, dims, info);
}

void SetValueInfo(std::string_view tensor, int32_t elem_type, const std::vector<int64_t>& dims,
                  onnx::GraphProto* graph) {
  const auto named = [&](const auto& info) { return info.name() == tensor; };
  if (std::any_of(graph->input().begin(), graph->input().end(), named) ||
      std::any_of(graph->output().begin(), graph->output().end(), named)) {
    return;
  }
  auto* infos = graph->mutable_value_info();
  const auto it = std::find_if(infos->begin(), infos->end(), named);
  if (it == infos->end()) return AddValueInfo(tensor, elem_type, dims, graph);
  SetTensorType(elem_type, dims, &*it);
}

}  // namespace gq::graph
