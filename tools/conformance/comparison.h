// A quantized model against what a golden vector expects.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/runtime/tensor.h"
#include "nlohmann/json.hpp"
#include "tools/conformance/configurations.h"

namespace gq::conformance {

// What is compared, in the order in which a difference is looked for.
enum class Aspect {
  kStatus,
  kTensors,  // set of quantized tensors with type, axis, sharing
  kScales,
  kZeroPoints,
  kWeights,  // integers of weights and biases
  kNodes,
  kInitializers,
  kOutputs,
};
inline constexpr int kAspects = 8;
std::string_view AspectName(Aspect aspect);

// Result of one run: for each aspect the first difference, empty where they agree.
struct Verdict {
  std::map<Aspect, std::string> differences;
  // Not looked at, with the reason.
  std::map<Aspect, std::string> not_compared;
  bool agrees() const { return differences.empty(); }
};

// Everything but status and outputs, from `expected` (expected.*.json). With `by_meaning` a
// left-out attribute equals its default, and an initializer a Constant node of that name: what a
// preparation other than Quark's own may write differently.
void CompareModel(const graph::Model& model, const nlohmann::json& expected, bool by_meaning,
                  Verdict* verdict);

// Outputs on the evaluation samples: arrays of [samples] + shape, by output name. `scales` gives
// the quantization step of an output where it has one.
void CompareOutputs(const std::map<std::string, runtime::Tensor>& actual,
                    const std::map<std::string, runtime::Tensor>& expected,
                    const std::map<std::string, double>& steps, Closeness closeness,
                    Verdict* verdict);

}  // namespace gq::conformance
