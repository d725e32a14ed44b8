// A model with a custom operator behind some of its tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/graph/model.h"

namespace gq::calibrate {

struct TappedGraph {
  graph::Model model;
  // Position of a graph input or output -> its number, for the caller: these lie in the caller's
  // memory, so no node was put behind them (only with `skip_ends`).
  std::map<size_t, int64_t> inputs;
  std::map<size_t, int64_t> outputs;
  // Tensors that cannot be tapped, and why.
  std::map<std::string, std::string, std::less<>> left_out;
};

struct TapOptions {
  std::string_view op_type;  // of runtime::kOperatorDomain, one input
  // Leaves graph inputs and outputs to the caller. Otherwise an input's readers and the graph
  // output of this name get what the operator makes of it.
  bool skip_ends = true;
};

// Puts a node behind each of `tensors` (float tensors of the main graph, no constants; names may
// repeat) and lets their readers in the main graph read its output; subgraphs read the tensor
// itself. `number` gives the id of each node, called once a tensor in order.
TappedGraph InsertTaps(const graph::Model& model, std::span<const std::string> tensors,
                       const TapOptions& options,
                       const std::function<int64_t(const std::string& tensor)>& number);

}  // namespace gq::calibrate
