#include "common/quantize/recover/recovery_samples.h"

#include <algorithm>

#include "common/base/status.h"

namespace gq::quantize {
namespace {

bool IsHeldOut(size_t sample) { return sample % 8 == 1 || sample % 8 == 4 || sample % 8 == 6; }

}  // namespace

absl::StatusOr<SampleSplit> ReadSamples(runtime::DataSet& data, int64_t wanted) {
  const int64_t count = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, data.size()));
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Sample sample;
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(i * data.size() / count, &sample));
    if (read == runtime::DataSet::ReadResult::kSample) samples.push_back(std::move(sample));
  }
  SampleSplit split;
  for (size_t i = 0; i < samples.size(); ++i) {
    (IsHeldOut(i) ? split.held_out : split.fit).push_back(std::move(samples[i]));
  }
  if (split.held_out.empty()) split.held_out = split.fit;
  return split;
}

absl::Status Requantize(const QuantizeInputs& inputs, runtime::DataSet& data,
                        base::Reporter& reporter, RecoveryState& state) {
  QuantizeInputs own = inputs;
  own.table = state.table.tensors.empty() ? nullptr : &state.table;
  GQ_ASSIGN_OR_RETURN(state.result, Quantize(state.source, state.config, data, reporter, own));
  state.table = state.result.table;
  state.stale = false;
  return absl::OkStatus();
}

}  // namespace gq::quantize
