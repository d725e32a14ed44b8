// A model whose tensors pass through roundings that can be changed between runs: candidates of an
// exploration are tried without building a new session. Figures that are reported as final come
// from the emitted file, not from here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/model.h"
#include "common/runtime/session.h"

namespace gq::calibrate {

struct Rounding {
  enum class Kind {
    kNone,
    kInteger,   // QuantizeLinear and DequantizeLinear in float arithmetic
    kBfloat16,  // to nearest, ties to even
    kFloat16,
  };
  Kind kind = Kind::kNone;
  // kInteger: x -> (clip(rint(x / scale) + zero_point, qmin, qmax) - zero_point) * scale.
  float scale = 1;
  float zero_point = 0;
  float qmin = -128;
  float qmax = 127;
};

// Rounds `from` into `to`, which may be the same memory.
void Round(const Rounding& rounding, std::span<const float> from, std::span<float> to);

// Not thread-safe: settings apply to the runs that follow.
class SwitchedModel {
 public:
  // Every tensor of `tensors` that can be rounded (float, main graph, no constant) starts with
  // kNone. A graph output is rounded before it leaves the model; subgraphs read tensors unrounded.
  // Errors of Session::Create.
  static absl::StatusOr<std::unique_ptr<SwitchedModel>> Create(
      const graph::Model& model, std::span<const std::string> tensors,
      const runtime::SessionOptions& options);
  virtual ~SwitchedModel() = default;

  // False when the tensor is not among those that can be rounded.
  virtual bool Set(std::string_view tensor, const Rounding& rounding) = 0;
  virtual void ClearAll() = 0;
  virtual const runtime::Session& session() const = 0;
  // Tensors that cannot be rounded, and why.
  virtual const std::map<std::string, std::string, std::less<>>& left_out() const = 0;
};

}  // namespace gq::calibrate
