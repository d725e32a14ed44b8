// An emitted model without its pairs, for running it often.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/calibrate/switched_rounding.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"

namespace gq::explore {

struct RoundedForm {
  graph::Model model;
  // By tensor: what it has to pass through (calibrate::SwitchedModel).
  std::map<std::string, calibrate::Rounding> roundings;
};

// Every Q/DQ pair on an activation, and every Cast to bfloat16 or float16 and back, becomes an
// Identity whose output is rounded; with the roundings the model computes bit for bit what it did.
// What has another form (integers that are read as such, scales that are no constants) stays.
absl::StatusOr<RoundedForm> MakeRoundedForm(const graph::Model& model);

// The rounding of a QuantizeLinear with one constant scale; nothing for others.
std::optional<calibrate::Rounding> RoundingOf(const onnx::NodeProto& quantize,
                                              const graph::Model& model,
                                              const graph::GraphIndex& index);

}  // namespace gq::explore
