// How far the tensors of a quantized model are from those of its float model.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"

namespace gq::calibrate {

struct TensorPair {
  std::string reference;  // tensor of the reference model
  std::string candidate;  // the one of the candidate that stands for it
};

struct TensorError {
  double signal = 0;  // sum of r^2 over all samples
  double noise = 0;   // sum of (r - c)^2
  double max_abs = 0;
  int64_t elements = 0;
  // 10 log10(signal / noise); +infinity without noise.
  double SnrDb() const;
};

struct TensorErrorOptions {
  int64_t max_samples = 0;  // 0: all
  // Tensors of the reference that are held at a time, for one sample; more pairs take more passes.
  int64_t max_bytes = int64_t{512} << 20;
};

// Runs both models over the samples (basic optimizations, Q/DQ in float arithmetic, one thread) and
// compares each pair. The result is by the reference's name; pairs that cannot be compared (not
// float, different sizes, no such tensor) are missing. The inputs of both models must be those of
// `data`. Errors of DataSet::Read and Session; CANCELLED.
absl::StatusOr<std::map<std::string, TensorError>> CompareTensors(
    const graph::Model& reference, const graph::Model& candidate, std::span<const TensorPair> pairs,
    runtime::DataSet& data, const TensorErrorOptions& options, base::Reporter& reporter);

}  // namespace gq::calibrate
