// The files that a compile leaves, in the names and layouts of the real tool (VE2 workflow, section
// g.3), so that everything that reads them is exercised. Each says that it is simulated where its
// layout has room for that.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "board_agent/backends/sim/sim_partition.h"
#include "common/compile/classification.h"
#include "common/compile/compiler_options.h"
#include "common/graph/model.h"

namespace gq::agent {

// Times that the summary states, in seconds.
struct SimTimes {
  double frontend = 0;
  double backend = 0;
  double aie_compile = 0;  // inside the backend's
  double overhead = 0;
  double total() const { return frontend + backend + overhead; }
};

struct SimFilesInput {
  const graph::Model& model;
  std::string model_name;
  std::string key;
  const compile::Classification& classification;
  const compile::CompilerOptions& options;
  const SimPartitioning& partitioning;
  SimTimes times;
};

// Writes into `folder`: final-vaiml-pass-summary.txt, preliminary-vaiml-pass-summary.txt,
// AIECompiler.log, aie_unsupported_original_ops_with_reasons.json, get_capability_v5.json,
// graph_partition_trace.csv, partition.mlir (with keep_outputs), vaiml_par_N/... for every
// offloaded subgraph, and KEY.rai. Fails with kFileUnwritable or kDiskFull.
absl::Status WriteSimFiles(const std::filesystem::path& folder, const SimFilesInput& input);

}  // namespace gq::agent
