// The check that the optimized float model computes what the user's model computes.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"

namespace gq::worker {

struct Equivalence {
  double max_abs = 0;  // largest difference of any float output
  double psnr_db = 0;  // of the worst output
  double seconds = 0;  // one inference of the optimized model on one thread: the FP32 baseline
};

// Runs both models on the first sample of `data`. SANITY_CHECK_FAILED, naming the output, when they
// differ by more than rounding explains: in float32 (PSNR 60 dB), or with `changed_precision` in
// the 16-bit arithmetic of the user's model (30 dB); MODEL_UNSUPPORTED when the user's model does
// not run. A model in a precision that ONNX Runtime cannot compute is not compared, with a warning.
absl::StatusOr<Equivalence> CheckEquivalence(const graph::Model& user_model,
                                             const graph::Model& float_model,
                                             bool changed_precision, runtime::DataSet& data,
                                             base::Reporter& reporter);

}  // namespace gq::worker
