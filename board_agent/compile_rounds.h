// Which compiler options to try when a compile leaves work to the CPU: options first, at most three
// changes a round (VE2 workflow, f.5 and g.5).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/compile/compiler_options.h"
#include "common/compile/partition_report.h"

namespace gq::agent {

inline constexpr size_t kMostChangesInARound = 3;
inline constexpr int kRoundsWithoutGain = 2;

// Changes, as `key=value`, that may move more of the model to the NPU, most promising first. Keys
// in `fixed` (the user chose them) and changes in `tried` are left alone, and so is what alters the
// numerics, unless `consent`. Empty when there is nothing to try.
std::vector<std::string> ProposeChanges(const compile::PartitionReport& report,
                                        const compile::CompilerOptions& options,
                                        const std::set<std::string>& fixed,
                                        const std::set<std::string>& tried, bool consent);

// Whether `candidate` is the better offload: a better level of the goal; within a level more
// operations on the NPU, then fewer partitions.
bool IsBetterOffload(const compile::PartitionReport& candidate,
                     const compile::PartitionReport& best);

}  // namespace gq::agent
