// The units of a search: compute layers with what hangs on them, joins between them, blocks of
// them.
#pragma once

#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace gq::explore {

struct Region {
  std::string layer;               // the compute layer; empty for joins
  std::vector<std::string> nodes;  // all nodes, the layer among them, in graph order
};

// One region for each compute layer (graph/analysis.h), in graph order. A node behind several
// layers (an Add, a Concat) belongs to the last of them, one before any layer to the first that
// needs it. Nodes that have nothing to do with any compute layer are in none.
std::vector<Region> FindRegions(const onnx::GraphProto& graph);

// Where branches meet: operators (no compute layers) that read two activations, with the other such
// operators behind them up to the next compute layer; what touches is one. Residual streams,
// gates, concatenations. In graph order; the regions above hold these nodes too.
std::vector<Region> FindJoins(const onnx::GraphProto& graph);

// Layers that are promoted with few conversions when they are promoted together, as numbers of
// `regions`: the branch between two Adds of a residual stream, the two products of an attention.
std::vector<std::vector<size_t>> FindBlocks(const onnx::GraphProto& graph,
                                            const std::vector<Region>& regions);

// Tensors that pass between a node of `promoted` and one outside of it; each costs a conversion.
int CountBorders(const onnx::GraphProto& graph, const std::vector<std::string>& promoted);

}  // namespace gq::explore
