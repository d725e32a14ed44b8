// Tensors of a quantized model that hold something else than those of the same name in the float
// model, because recovery moved factors about.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/quantize/recover/staged_run.h"

namespace gq::quantize {

// Names of float constants and activations that are in both models and differ by more than
// rounding, the activations on `sample`.
absl::StatusOr<std::set<std::string>> RescaledTensors(const graph::Model& before,
                                                      const graph::Model& after,
                                                      const Sample& sample);

// Kept in the model's metadata ("gq_rescaled_tensors", one name a line), for whoever compares it
// with the float model tensor by tensor.
void WriteRescaled(const std::set<std::string>& names, graph::Model* model);
std::set<std::string> ReadRescaled(const graph::Model& model);

}  // namespace gq::quantize
