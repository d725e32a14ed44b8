// One pass over the samples that observes tensors inside the graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/calibrate/calibration_table.h"
#include "common/calibrate/method.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"

namespace gq::calibrate {

struct TensorRequest {
  std::string name;  // graph input, initializer or node output of the main graph
  Grid grid = Grid::kInt8;
};

struct CalibrateOptions {
  // Quark's way: graph optimizations off, one intra-op thread, NaN and infinity replaced.
  bool quark_compatible = false;
  // NaN or infinity in a tensor: leave the sample out with a warning instead of failing. A data set
  // that allows them in samples allows them in tensors too.
  bool allow_nonfinite = false;
  // Intra-op threads. 0: a number that depends on the host alone, so that the result does not
  // depend on settings.
  int threads = 0;
  // Puts the digest of the samples into the table (reads all data once more).
  bool want_digest = false;
};

// The intra-op threads that a calibration with these options uses.
int CalibrationThreads(const CalibrateOptions& options);

// Runs every sample of `data` through `model` and returns min, max and the range by each of
// `methods` for each of `tensors` (tensors that cannot be observed are in left_out, which is no
// error). The result depends on model, data, requests, methods and host alone, not on thread
// timing. Memory is that of one inference plus one histogram a tensor; a second pass is made for
// kMinMse without a histogram. Progress: component "Calibrate", unit "samples".
//
// Errors: those of DataSet::Read and Session::Create; DATA_NONFINITE when a tensor has NaN or
// infinity (naming tensor and sample); DATA_EMPTY when no sample is left; CANCELLED.
absl::StatusOr<CalibrationTable> Calibrate(const graph::Model& model,
                                           std::span<const TensorRequest> tensors,
                                           std::span<const MethodSpec> methods,
                                           runtime::DataSet& data, const CalibrateOptions& options,
                                           base::Reporter& reporter);

// Every float tensor of the main graph that a calibration can observe: graph inputs and node
// outputs of known type, no initializers.
std::vector<TensorRequest> ObservableTensors(const graph::Model& model, Grid grid = Grid::kInt8);

}  // namespace gq::calibrate
