// Names of task types.
#pragma once

#include <optional>
#include <string_view>

#include "common/graph/analysis.h"

namespace gq::graph {

// The type that TaskTypeName gives this name; nothing for any other text.
std::optional<TaskType> TaskFromName(std::string_view name);

}  // namespace gq::graph
