// What bounds a search (--explore-limit KEY=VALUE; mixed_precision of run.detail.yaml).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"

namespace gq::explore {

struct Limits {
  // What layers are promoted to: BFLOAT16, FLOAT16, FLOAT, INT16 (activations; weights stay int8),
  // or INT8 (weights, of a scheme with int4 ones).
  int32_t precision = onnx::TensorProto::BFLOAT16;
  double pass_rate = 99.9;   // percent; reached: stop
  double min_gain_db = 0.5;  // the last `patience` kept promotions each gained less: stop
  int patience = 3;
  double max_share = 0.30;  // of the compute layers
  int max_iterations = 50;
  double time_budget = 0;           // seconds; 0: none
  std::vector<std::string> keep;    // layers that are promoted from the start: names or patterns
  std::vector<std::string> forbid;  // layers that are never promoted

  // The most promotions among `layers` compute layers: ceil(max_share * layers). The promotion that
  // reaches the share is kept and is the last.
  int MostPromotions(int layers) const;
  // The most tries: max_iterations, or one a layer.
  int MostIterations(int layers) const;
};

// `bf16`, `fp16`, `fp32`, `int16` or `int8`, as it is written in precision=...
std::string_view PrecisionText(int32_t precision);

// Each text is `KEY=VALUE`; `keep` and `forbid` may come several times, with names separated by
// commas. INVALID_FLAG with the keys there are and what a value looks like.
absl::StatusOr<Limits> ParseLimits(const std::vector<std::string>& texts);

}  // namespace gq::explore
