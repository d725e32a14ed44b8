// A configuration as it is saved: nothing in it is left to defaults, patterns or the structure of a
// graph.
#pragma once

#include "absl/status/statusor.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/quantize/config.h"
#include "common/quantize/settings.h"

namespace gq::quantize {

struct ModelOrigin;

// `config` with every pattern as the node names that it stands for, every region as its nodes, and
// the options of its path with the values they have. Quantizes to the same bytes, and resolves to
// itself. `index` is over the model to quantize and `settings` what Resolve made of `config`; with
// `origin`, names mean nodes of the user's model. Errors: PATTERN_INVALID, PATTERN_UNMATCHED.
absl::StatusOr<QuantizeConfig> ResolvedConfig(const QuantizeConfig& config,
                                              const Settings& settings,
                                              const graph::GraphIndex& index,
                                              const ModelOrigin* origin);

// The same for a caller that has no settings.
absl::StatusOr<QuantizeConfig> ResolvedConfig(const QuantizeConfig& config,
                                              const graph::Model& float_model,
                                              const ModelOrigin* origin);

}  // namespace gq::quantize
