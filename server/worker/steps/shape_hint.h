// What the data says about dimensions that the model leaves open.
#pragma once

#include <string>

#include "common/graph/model.h"
#include "server/worker/steps/job_inputs.h"

namespace gq::worker {

// The flags that pin the inputs of `model` to the shapes of the first calibration file, like
// `--input-shape x=1x3x224x224`: known dimensions as the model has them, an open first one 1,
// others as the file has them. Empty when there is no such file or it does not fit the model.
std::string ShapeFlagsFromData(const JobInputs& inputs, const graph::Model& model);

}  // namespace gq::worker
