// The custom operator gq.Observe: its output is its input, in the same memory, and on the way the
// values are shown to an ObserverSet. So observing a tensor costs no copy and keeps nothing alive.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/calibrate/observer_set.h"
#include "common/runtime/ort_library.h"

namespace gq::calibrate {

inline constexpr char kOperatorDomain[] = "gq";
inline constexpr char kObserveOperator[] = "Observe";
// Attribute: number of the observer in the set.
inline constexpr char kObserverAttribute[] = "observer";

class ObserveOperator {
 public:
  // `observers` must outlive the sessions that use the operator. `threads` is the number of
  // intra-op threads of those sessions.
  static absl::StatusOr<std::unique_ptr<ObserveOperator>> Create(const runtime::OrtLibrary& library,
                                                                 ObserverSet& observers,
                                                                 int threads);
  virtual ~ObserveOperator() = default;

  // For SessionOptions::custom_op_domains; owned by this object.
  virtual OrtCustomOpDomain* domain() = 0;
};

}  // namespace gq::calibrate
