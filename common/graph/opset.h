// Conversion of models to newer operator sets of the default domain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"

namespace gq::graph {

// Oldest opset that is read and newest that can be converted to.
inline constexpr int64_t kOldestOpset = 7;
inline constexpr int64_t kNewestOpset = 23;

// IR version that an opset of the default domain needs at least.
int64_t MinIrVersion(int64_t opset);

struct OpsetChange {
  int64_t before = 0;
  int64_t after = 0;
  std::vector<std::string> details;  // "Clip: min and max became inputs (24 nodes)"
};

// Rewrites the nodes of the graph and its subgraphs so that the model means the same at `target`;
// does nothing when the model is at `target` or newer. Node names stay; attributes that became
// inputs become initializers. Data in the store is not touched. MODEL_UNSUPPORTED for an opset
// below kOldestOpset or a node that has no equivalent, which is named.
absl::StatusOr<OpsetChange> ConvertOpset(int64_t target, Model* model);

}  // namespace gq::graph
