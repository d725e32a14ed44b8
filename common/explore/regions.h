// The units of a search: compute layers with what hangs on them.
#pragma once

#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace gq::explore {

struct Region {
  std::string layer;               // the compute layer
  std::vector<std::string> nodes;  // all nodes, the layer among them, in graph order
};

// One region for each compute layer (graph/analysis.h), in graph order. A node behind several
// layers (an Add, a Concat) belongs to the last of them, one before any layer to the first that
// needs it. Nodes that have nothing to do with any compute layer are in none.
std::vector<Region> FindRegions(const onnx::GraphProto& graph);

// Tensors that pass between a node of `promoted` and one outside of it; each costs a conversion.
int CountBorders(const onnx::GraphProto& graph, const std::vector<std::string>& promoted);

}  // namespace gq::explore
