// Latency of the simulated VE2 device: a roofline model, stated with every figure it gives. It says
// what the documented shape of the device allows, not what a board would measure.
#pragma once

#include <string>

#include "board_agent/backends/sim/sim_partition.h"
#include "common/compile/compiler_options.h"
#include "common/graph/model.h"

namespace gq::agent {

struct SimLatency {
  double milliseconds = 0;
  std::string conditions_json;
};

// Every NPU subgraph takes the longer of its operations at the sustained rate of the columns in use
// and its share of the weights at memory bandwidth, plus a launch; every CPU partition its
// operations at the rate of the host cores, plus a hand-over. The constants are in the conditions.
SimLatency EstimateLatency(const graph::Model& model, const SimPartitioning& partitioning,
                           const compile::CompilerOptions& options);

}  // namespace gq::agent
