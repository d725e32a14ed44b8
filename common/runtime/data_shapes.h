// What files of samples say about dimensions that a model leaves open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::runtime {

struct OpenInput {
  std::string name;
  std::vector<int64_t> shape;  // -1 for a dimension that is open
};

// Shapes for those of `inputs`, which are all inputs of a model, that have open dimensions: known
// dimensions as they are, an open first one 1 where the arrays stack samples along it, others as
// the arrays have them. An input whose arrays do not fit its known dimensions gets none, and so
// does one without an array: opening the data set (data_set.h) explains what is wrong. Reads
// headers alone. The errors of ListDataFiles and of damaged files; DYNAMIC_SHAPE when two files ask
// for different shapes of one input.
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> ShapesOfData(
    std::span<const std::filesystem::path> paths, std::span<const OpenInput> inputs);

}  // namespace gq::runtime
