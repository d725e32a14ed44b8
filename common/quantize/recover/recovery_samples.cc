#include "common/quantize/recover/recovery_samples.h"

#include <algorithm>

#include "common/base/status.h"

namespace gq::quantize {
namespace {

constexpr size_t kLeastForTwo = 6;
constexpr size_t kMostForTwo = 19;  // beyond, one fold holds out enough

// Of eight samples those that one fold or the other holds out.
constexpr bool kHeldOut[2][8] = {{false, true, false, false, true, false, true, false},
                                 {true, false, false, true, false, true, false, false}};

SampleFold Fold(const std::vector<Sample>& samples, const bool (&held_out)[8]) {
  SampleFold fold;
  for (size_t i = 0; i < samples.size(); ++i) {
    (held_out[i % 8] ? fold.held_out : fold.fit).push_back(samples[i]);
  }
  return fold;
}

}  // namespace

absl::StatusOr<std::vector<SampleFold>> ReadSamples(runtime::DataSet& data, int64_t wanted) {
  const int64_t count = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, data.size()));
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Sample sample;
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(i * data.size() / count, &sample));
    if (read == runtime::DataSet::ReadResult::kSample) samples.push_back(std::move(sample));
  }
  std::vector<SampleFold> folds = {Fold(samples, kHeldOut[0])};
  if (folds[0].held_out.empty()) folds[0].held_out = folds[0].fit;
  if (samples.size() >= kLeastForTwo && samples.size() <= kMostForTwo) {
    folds.push_back(Fold(samples, kHeldOut[1]));
  }
  return folds;
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
