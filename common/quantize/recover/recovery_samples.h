// The calibration samples that recovery works with, and the quantization it repeats.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

struct SampleSplit {
  std::vector<Sample> fit;
  std::vector<Sample> held_out;  // three of eight
};

// At most `wanted` samples spread over the whole set. A single one serves for both.
absl::StatusOr<SampleSplit> ReadSamples(runtime::DataSet& data, int64_t wanted);

// Makes state.result from state.source and state.config, with state.table where it has ranges.
absl::Status Requantize(const QuantizeInputs& inputs, runtime::DataSet& data,
                        base::Reporter& reporter, RecoveryState& state);

}  // namespace gq::quantize
