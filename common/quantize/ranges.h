// Whose observed range each tensor uses: a Relu or Clip lends its output's range to its input, and
// Softmax has a fixed one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "common/graph/graph_index.h"
#include "common/quantize/scale.h"
#include "common/quantize/settings.h"
#include "common/quantize/targets.h"

namespace gq::quantize {

struct RangeSource {
  std::string tensor;               // whose observation counts
  std::optional<ValueRange> fixed;  // known without looking
};

// Only tensors that do not use their own observation.
class RangeSources {
 public:
  // A Relu or Clip that is selected and whose input nobody else reads gives its output's range to
  // the input, in node order, so that chains work; a selected Softmax's output is [0, 1].
  RangeSources(const graph::GraphIndex& index, const Settings& settings, const Targets& targets);

  RangeSource Of(std::string_view tensor) const;

 private:
  absl::flat_hash_map<std::string, RangeSource> sources_;
};

}  // namespace gq::quantize
