// Which nodes of a model the simulated NPU takes, why not the others, and how they fall into
// partitions. The rules are those that are documented for the VE2 compiler (operators seen in
// published kernel lists, reasons seen in published reports); docs/simulated-boards.md lists them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/compile/classification.h"
#include "common/compile/compiler_options.h"
#include "common/graph/model.h"

namespace gq::agent {

// One node that stays on the CPU.
struct SimFallback {
  int node = 0;         // position in the graph
  std::string message;  // as the compiler would say it
};

struct SimSubgraph {
  std::vector<int> nodes;
  int64_t ops = 0;
  int64_t int8_ops = 0;
  bool below_threshold = false;
  bool above_max = false;  // beyond the number of subgraphs that the tool allows
};

struct SimPartitioning {
  int64_t nodes = 0;
  int64_t ops = 0;  // of the whole model
  int64_t supported_nodes = 0;
  int64_t supported_ops = 0;
  std::vector<SimSubgraph> subgraphs;  // supported ones, in order of execution
  std::vector<SimFallback> fallbacks;
  int cpu_partitions = 0;
  // Kernels of the offloaded nodes, e.g. `Conv2d(i8,i8)->(i8)`, with their number.
  std::map<std::string, int64_t> kernels;

  int64_t offloaded_nodes() const;
  int64_t offloaded_ops() const;
  int offloaded_subgraphs() const;
};

inline constexpr int kSimMaxSubgraphs = 7;

// The model must have its shapes inferred. Operations: two for each multiply-accumulate, one for
// each output element of any other node.
SimPartitioning PartitionForSim(const graph::Model& model,
                                const compile::Classification& classification,
                                const compile::CompilerOptions& options);

}  // namespace gq::agent
