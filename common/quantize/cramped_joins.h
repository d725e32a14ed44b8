// Joins whose one scale would leave an input hardly any steps: scores beside pixel coordinates.
#pragma once

#include <string>
#include <vector>

#include "common/quantize/context.h"

namespace gq::quantize {

struct CrampedJoin {
  std::string node;
  std::string input;                    // the tensor that would lose its detail
  double bits = 0;                      // that its own range would have left
  std::vector<std::string> kept_float;  // the join and everything behind it
};

// Concat nodes at the end of the network (no compute layer behind them) where the output's scale
// leaves an input that is not all zero fewer than 4 bits of its own range. A join with compute
// layers behind it is only warned about: leaving all of them float would cost more than it saves.
std::vector<CrampedJoin> FindCrampedJoins(QuantizeContext& context);

}  // namespace gq::quantize
