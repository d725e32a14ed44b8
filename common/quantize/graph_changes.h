// What a pass did to a graph, told by comparing before and after.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/graph/model.h"

namespace gq::quantize {

// Node names and types and the constants of a graph at one moment.
class GraphSnapshot {
 public:
  explicit GraphSnapshot(const graph::Model& model);

  // One sentence each for the nodes that are gone, new, or of another type since then, and for the
  // constants that changed; each names at most ten. In the order of the graphs.
  std::vector<std::string> ChangesTo(const graph::Model& model) const;

 private:
  std::vector<std::pair<std::string, std::string>> nodes_;   // name, type
  absl::flat_hash_map<std::string, std::string> constants_;  // name -> message
};

}  // namespace gq::quantize
