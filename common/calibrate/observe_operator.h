// The custom operator gq.Observe: its output is its input, in the same memory, and on the way the
// values are shown to an ObserverSet. So observing a tensor costs no copy and keeps nothing alive.
#pragma once

#include "common/calibrate/observer_set.h"
#include "common/runtime/float_operator.h"

namespace gq::calibrate {

inline constexpr char kObserveOperator[] = "Observe";

// The node id is the number of the observer in `observers`, which must outlive the operator.
inline runtime::FloatOperatorDefinition ObserveOperator(ObserverSet& observers) {
  return {.name = kObserveOperator,
          .inputs = 1,
          .memory = runtime::FloatOperatorDefinition::Memory::kPassThrough,
          .compute = [&observers](const runtime::FloatCall& call) {
            observers.Observe(call.id, call.inputs[0], call.loop);
          }};
}

}  // namespace gq::calibrate
