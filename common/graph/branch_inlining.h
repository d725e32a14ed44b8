// If nodes whose condition is known.
#pragma once

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::graph {

// Puts the chosen branch in place of every If of the main graph whose condition is a constant.
// Returns how many.
absl::StatusOr<int> InlineConstantBranches(Model* model);

}  // namespace gq::graph
