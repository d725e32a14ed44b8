#include "common/quantize/node_patterns.h"

#include <algorithm>
#include <regex>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"

namespace gq::quantize {
namespace {

using base::MakeError;
using base::Reason;
using NodeSet = absl::flat_hash_set<std::string>;

// Longer patterns are no patterns of names.
constexpr size_t kLongestPattern = 1000;

// Walks over all alternatives side by side instead of one after the other: neither a long name nor
// a wicked pattern then costs stack or exponential time. Back-references are not to be had.
constexpr auto kLinear = std::regex_constants::__polynomial;

absl::StatusOr<std::regex> Compile(const std::string& pattern) {
  if (pattern.size() > kLongestPattern) {
    return MakeError(Reason::kPatternInvalid,
                     base::StrCat("A pattern of ", pattern.size(), " characters, at most ",
                                  kLongestPattern, " are read: '", pattern.substr(0, 60), "...'"),
                     "List the node names.");
  }
  try {
    return std::regex(pattern, std::regex::ECMAScript | kLinear);
  } catch (const std::regex_error& error) {
    return MakeError(Reason::kPatternInvalid,
                     base::StrCat("'", pattern, "' is no regular expression: ", error.what()),
                     "Correct the expression, or list the node names.");
  }
}

// Patterns that Quark uses. It drops the entries without ".*" from the list it walks over, so the
// entry behind a dropped one is not looked at and stays.
std::vector<std::string> KeptByQuark(std::vector<std::string> patterns,
                                     std::vector<std::string>* warnings) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].find(".*") != std::string::npos) continue;
    warnings->push_back(
        base::StrCat("The pattern '", patterns[i], "' has no '.*' and is dropped, as Quark does"));
    patterns.erase(patterns.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return patterns;
}

absl::Status Unmatched(const onnx::GraphProto& graph, const std::string& target) {
  if (target[0] == '^') {
    return MakeError(Reason::kPatternUnmatched,
                     base::StrCat("The pattern '", target, "' matches no node"),
                     "Names are searched from the start; check with gq analyze.");
  }
  return MakeError(Reason::kPatternUnmatched, base::StrCat("There is no node named '", target, "'"),
                   base::StrCat("Closest names: ", base::StrJoin(ClosestNames(graph, target), ", "),
                                ". --allow-unmatched makes this a warning."));
}

}  // namespace

std::vector<std::string> ClosestNames(const onnx::GraphProto& graph, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& node : graph.node()) {
    if (!node.name().empty()) names.push_back(node.name());
  }
  return base::ClosestNames(name, names);
}

absl::StatusOr<NodeSet> MatchNodes(const onnx::GraphProto& graph,
                                   std::span<const std::string> targets,
                                   const PatternOptions& options,
                                   std::vector<std::string>* warnings) {
  NodeSet known;
  for (const auto& node : graph.node()) known.insert(node.name());

  NodeSet matched;
  std::vector<std::string> patterns;
  const auto report = [&](const std::string& target) -> absl::Status {
    absl::Status status = Unmatched(graph, target);
    if (!options.allow_unmatched && !options.quark) return status;
    warnings->push_back(std::string(status.message()));
    return absl::OkStatus();
  };
  for (const auto& target : targets) {
    if (target.empty()) continue;
    if (target[0] == '^') {
      patterns.push_back(target);
    } else if (options.quark || known.contains(target)) {
      matched.insert(target);
    } else {
      GQ_RETURN_IF_ERROR(report(target));
    }
  }

  if (options.quark) {
    patterns = KeptByQuark(std::move(patterns), warnings);
  }
  bool any = false;
  for (const auto& pattern : patterns) {
    if (!options.quark && pattern.find(".*") == std::string::npos) {
      return MakeError(Reason::kPatternInvalid,
                       base::StrCat("The pattern '", pattern, "' must contain '.*'"),
                       base::StrCat("Write '", pattern, ".*', or the exact name without '^'."));
    }
    GQ_ASSIGN_OR_RETURN(const std::regex regex, Compile(pattern));
    bool found = false;
    for (const auto& node : graph.node()) {
      if (!std::regex_search(node.name(), regex)) continue;
      matched.insert(node.name());
      found = true;
    }
    any |= found;
    if (!found && !options.quark) GQ_RETURN_IF_ERROR(report(pattern));
  }
  if (options.quark && !patterns.empty() && !any) {
    return Unmatched(graph, patterns.back());
  }
  return matched;
}

absl::StatusOr<NodeSet> NodesBetween(const onnx::GraphProto& graph,
                                     std::span<const std::string> starts,
                                     std::span<const std::string> ends) {
  const graph::GraphIndex index(graph);
  NodeSet region(starts.begin(), starts.end());
  std::vector<const onnx::NodeProto*> open;
  for (const auto& name : starts) {
    if (index.FindNode(name) == nullptr) return Unmatched(graph, name);
  }
  for (const auto& name : ends) {
    const onnx::NodeProto* node = index.FindNode(name);
    if (node == nullptr) return Unmatched(graph, name);
    if (region.insert(name).second) open.push_back(node);
  }
  while (!open.empty()) {
    const onnx::NodeProto* node = open.back();
    open.pop_back();
    for (const auto& input : node->input()) {
      if (index.IsGraphInput(input) && !index.IsInitializer(input)) {
        return MakeError(Reason::kPatternInvalid,
                         base::StrCat("The subgraph that ends at '", base::StrJoin(ends, "', '"),
                                      "' is not closed by its starts: node '", node->name(),
                                      "' reads the model input '", input, "'"),
                         "Name every node through which data enters the region as a start.");
      }
      const onnx::NodeProto* producer = index.Producer(input);
      if (producer != nullptr && region.insert(producer->name()).second) open.push_back(producer);
    }
  }
  return region;
}

}  // namespace gq::quantize
