#include "common/quantize/graph_changes.h"

#include <algorithm>

#include "common/base/text.h"

namespace gq::quantize {
namespace {

constexpr size_t kNamed = 10;

// "nodes removed: 12 (Relu 'a', Clip 'b' and 10 more)"
void Tell(std::string_view what, const std::vector<std::string>& names,
          std::vector<std::string>* sentences) {
  if (names.empty()) return;
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
  std::string text = base::StrCat(what, " ", names.size(), " (", base::StrJoin(shown, ", "));
  if (names.size() > kNamed) base::StrAppend(&text, " and ", names.size() - kNamed, " more");
  text += ")";
  sentences->push_back(std::move(text));
}

std::string Named(std::string_view type, std::string_view name) {
  return base::StrCat(type, " '", name, "'");
}

}  // namespace

GraphSnapshot::GraphSnapshot(const graph::Model& model) {
  for (const auto& node : model.graph().node()) nodes_.emplace_back(node.name(), node.op_type());
  for (const auto& tensor : model.graph().initializer()) {
    constants_[tensor.name()] = tensor.SerializeAsString();
  }
}

std::vector<std::string> GraphSnapshot::ChangesTo(const graph::Model& model) const {
  absl::flat_hash_map<std::string, std::string> now;
  for (const auto& node : model.graph().node()) now[node.name()] = node.op_type();
  absl::flat_hash_map<std::string, std::string> before(nodes_.begin(), nodes_.end());
  std::vector<std::string> removed;
  std::vector<std::string> retyped;
  for (const auto& [name, type] : nodes_) {
    const auto same = now.find(name);
    if (same == now.end()) {
      removed.push_back(Named(type, name));
    } else if (same->second != type) {
      retyped.push_back(base::StrCat(Named(type, name), " is now ", same->second));
    }
  }
  std::vector<std::string> added;
  for (const auto& node : model.graph().node()) {
    if (!before.contains(node.name())) added.push_back(Named(node.op_type(), node.name()));
  }
  std::vector<std::string> constants;
  for (const auto& tensor : model.graph().initializer()) {
    const auto same = constants_.find(tensor.name());
    if (same != constants_.end() && same->second != tensor.SerializeAsString()) {
      constants.push_back(base::StrCat("'", tensor.name(), "'"));
    }
  }
  std::vector<std::string> sentences;
  Tell("nodes removed:", removed, &sentences);
  Tell("nodes added:", added, &sentences);
  Tell("nodes of another type:", retyped, &sentences);
  Tell("constants changed:", constants, &sentences);
  return sentences;
}

}  // namespace gq::quantize
