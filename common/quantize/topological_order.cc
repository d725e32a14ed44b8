#include "common/quantize/topological_order.h"

#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"

namespace gq::quantize {

absl::Status SortBreadthFirst(onnx::GraphProto* graph) {
  const int count = graph->node_size();
  std::vector<int> missing(count, 0);  // inputs of a node that are not there yet
  absl::flat_hash_map<std::string, std::vector<int>> readers;
  std::vector<int> order;
  for (int i = 0; i < count; ++i) {
    for (const auto& input : graph->node(i).input()) {
      if (input.empty()) continue;
      ++missing[i];
      readers[input].push_back(i);
    }
    if (missing[i] == 0) order.push_back(i);
  }
  const auto provide = [&](const std::string& tensor) {
    const auto it = readers.find(tensor);
    if (it == readers.end()) return;
    for (const int reader : it->second) {
      if (--missing[reader] == 0) order.push_back(reader);
    }
  };
  std::set<std::string> given;
  for (const auto& initializer : graph->initializer()) given.insert(initializer.name());
  for (const auto& input : graph->input()) given.insert(input.name());
  for (const auto& tensor : given) provide(tensor);
  for (size_t next = 0; next < order.size(); ++next) {
    for (const auto& output : graph->node(order[next]).output()) {
      if (!output.empty()) provide(output);
    }
  }
  if (static_cast<int>(order.size()) != count) {
    return base::MakeError(base::Reason::kModelInvalid,
                           "The graph has a cycle or a missing tensor");
  }
  std::vector<onnx::NodeProto*> nodes(count);
  graph->mutable_node()->ExtractSubrange(0, count, nodes.data());
  for (const int position : order) graph->mutable_node()->AddAllocated(nodes[position]);
  return absl::OkStatus();
}

}  // namespace gq::quantize
