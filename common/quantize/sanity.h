// The last look at an emitted model.
#pragma once

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "nlohmann/json.hpp"

namespace gq::quantize {

// Writes the model into memory as a file would hold it, loads it again with the full checker,
// compares it with the model at hand and runs it on the first sample. Returns what was done for the
// report: {"checked", "identical", "ran", "finite"}. SANITY_CHECK_FAILED when the model is not
// valid, differs after loading or does not run. A model of 256 MiB or more is checked and run as it
// is in memory; models with operators of com.amd.quark, which no stock runtime has, are not run.
absl::StatusOr<nlohmann::json> CheckSanity(const graph::Model& model, runtime::DataSet& data);

}  // namespace gq::quantize
