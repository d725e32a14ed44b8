// Another quantization for the sake of a full offload: layers that were left in float, and that the
// compiler leaves on the CPU for it, become integers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/compile/partition_report.h"
#include "common/rpc/step_program.h"

namespace gq::agent {

// Removes from the exclude list of a Quark JSON the nodes among `layers` and those that take part
// in their names (`conv1` for a layer `/conv1/conv1_output`). Returns the names that were removed;
// `config` is unchanged when there are none or it cannot be read.
std::vector<std::string> IncludeLayers(const std::vector<std::string>& layers, std::string& config);

struct Requantized {
  std::filesystem::path model;
  std::filesystem::path config;
  std::vector<std::string> included;  // nodes that became integers
  // Verdict on the accuracy: `goal_met`, `goal_not_met`, `not_judged`.
  std::string verdict;
};

// Runs `gq-worker quantize` of this program's folder on the job's own model and data with the
// changed configuration of the job, and measures the result. Nothing when no excluded layer is
// among those on the CPU, or this host has no gq-worker (which is logged). Errors: those of the
// worker.
absl::StatusOr<std::optional<Requantized>> Requantize(const rpc::StepContext& context,
                                                      const compile::PartitionReport& report,
                                                      const std::filesystem::path& folder);

}  // namespace gq::agent
