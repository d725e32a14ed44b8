// The residual stream of a transformer: a few channels of it may be a hundred times larger than
// everything else, and then int8 leaves nothing of the rest. Found by measurement, not by names.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"

namespace gq::quantize {

struct ResidualStream {
  std::vector<std::string> adds;  // nodes that sum the stream up (graph::ResidualAdds), in order
  std::string peak_tensor;        // result of that Add whose largest magnitude is greatest
  double peak = 0;                // its largest magnitude
  double median = 0;              // of the largest magnitudes of all float activations
  int64_t samples = 0;            // measured on

  double ratio() const { return median > 0 ? peak / median : 0; }
  // One position of 8 bits serves both the peak and a typical value of the model badly: three bits
  // and more of the seven are lost to the peak.
  bool has_large_peaks() const { return ratio() >= 8; }
};

// Measures on the first samples of `data`; the stream has no Adds where the model has none. The
// whole stream is judged at once: Adds that are kept in part only do not help. Errors of Calibrate.
absl::StatusOr<ResidualStream> MeasureResidualStream(const graph::Model& float_model,
                                                     runtime::DataSet& data, bool allow_nonfinite,
                                                     base::Reporter& reporter);

}  // namespace gq::quantize
