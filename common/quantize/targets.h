// Names and patterns of a configuration, resolved on one model: which nodes stay float, which
// tensors have a type of their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "common/graph/graph_index.h"
#include "common/quantize/config.h"

namespace gq::quantize {

struct ModelOrigin;

struct Targets {
  absl::flat_hash_set<std::string> excluded;        // names of nodes of the model at hand
  std::map<std::string, std::string> reasons;       // why, where it was not the configuration
  std::map<std::string, TensorOverride> overrides;  // by tensor of the model at hand
  absl::flat_hash_set<std::string> mixed_nodes;     // nodes named by overrides
  bool has_overrides = false;  // something was overridden, even if it is gone from the model
  std::vector<std::string> warnings;

  const TensorOverride* Override(const std::string& tensor) const {
    const auto it = overrides.find(tensor);
    return it == overrides.end() ? nullptr : &it->second;
  }
};

// `index` is over the model to quantize. With `origin`, names mean nodes of the user's model: they
// are matched there and carried over by its renamed_nodes (names of nodes that only the model at
// hand has mean those); with Compatibility::kQuark they are carried over by tensor name alone, so
// what was renamed is lost (with a warning).
absl::StatusOr<Targets> ResolveTargets(const QuantizeConfig& config, const graph::GraphIndex& index,
                                       const ModelOrigin* origin);

}  // namespace gq::quantize
