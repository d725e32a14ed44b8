// The model with observers in it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/calibrate/calibrate.h"
#include "common/calibrate/observer_set.h"
#include "common/graph/model.h"

namespace gq::calibrate {

// Where each requested tensor is looked at.
struct ObservedGraph {
  graph::Model model;
  // Position of a graph input or output -> number of its observer: seen by the caller, since these
  // lie in the caller's memory anyway.
  std::map<size_t, int64_t> inputs;
  std::map<size_t, int64_t> outputs;
  // Requested tensors that cannot be observed, and why.
  std::map<std::string, std::string, std::less<>> left_out;
};

// Puts a gq.Observe node behind each requested node output and lets its readers in the main graph
// read that. Adds an observer to `observers` for each tensor.
ObservedGraph InsertObservers(const graph::Model& model, std::span<const TensorRequest> tensors,
                              ObserverSet& observers);

}  // namespace gq::calibrate
