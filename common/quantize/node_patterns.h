// Which nodes a list of names and patterns means.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"

namespace gq::quantize {

struct PatternOptions {
  bool quark = false;            // Quark's handling of bad and unmatched entries
  bool allow_unmatched = false;  // unmatched entries are warnings
};

// A target that begins with '^' is a regular expression (ECMAScript, searched, so the end is open)
// and must hold ".*"; any other is an exact node name. PATTERN_INVALID for a bad expression,
// PATTERN_UNMATCHED with the closest names for one without a match. `warnings` collects what was
// let through.
absl::StatusOr<absl::flat_hash_set<std::string>> MatchNodes(const onnx::GraphProto& graph,
                                                            std::span<const std::string> targets,
                                                            const PatternOptions& options,
                                                            std::vector<std::string>* warnings);

// Nodes of the closed region between `starts` and `ends` (both included): everything that is
// reached backwards from the ends until the starts. PATTERN_INVALID when a graph input is reached,
// PATTERN_UNMATCHED when a name is unknown.
absl::StatusOr<absl::flat_hash_set<std::string>> NodesBetween(const onnx::GraphProto& graph,
                                                              std::span<const std::string> starts,
                                                              std::span<const std::string> ends);

// The (at most three) names closest to `name` by edit distance.
std::vector<std::string> ClosestNames(const onnx::GraphProto& graph, std::string_view name);

}  // namespace gq::quantize
