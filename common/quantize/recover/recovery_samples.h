// The calibration samples that recovery works with, and the quantization it repeats.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quantize/recover/recovery_pass.h"

namespace gq::quantize {

struct SampleFold {
  std::vector<Sample> fit;
  std::vector<Sample> held_out;
};

// With this many samples or more none is spared for a fit to all of them.
inline constexpr size_t kManySamples = 24;

// At most `wanted` samples spread over the whole set, three of eight held out. A single one serves
// for both. Where they are few, but six at least, a second fold holds out another three of eight.
absl::StatusOr<std::vector<SampleFold>> ReadSamples(runtime::DataSet& data, int64_t wanted);

// Makes state.result from state.source and state.config, with state.table where it has ranges.
absl::Status Requantize(const QuantizeInputs& inputs, runtime::DataSet& data,
                        base::Reporter& reporter, RecoveryState& state);

}  // namespace gq::quantize
