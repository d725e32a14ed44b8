// The figures of a report that every rendering shows, in words.
#pragma once

#include <string>
#include <vector>

#include "common/report/json_view.h"

namespace gq::report {

// A fact with its name: `Model size`, `935.12 kB -> 264.03 kB (3.54 times smaller)`.
struct Fact {
  std::string name;
  std::string value;
};

struct VerdictWords {
  std::string result;  // `goal met`, `goal not met`, `not judged`; empty when there is none
  bool default_goal = false;
  std::string reason;
  std::vector<Fact> goals;     // expression -> `met: 34.2 on output 'y'`
  std::string default_result;  // beside an explicit goal: what the default goal says
};

VerdictWords VerdictOf(const Json& report);

// Goals on speed, offload and size as the steps judged them, each once: the last step to judge one
// counts. Entries of `performance_targets` (docs/report.md).
std::vector<const Json*> PerformanceGoals(const Json& report);

// Bits of weights and activations of an entry of `layers`: `8`, or `8/16` where they differ; `-`
// where the report does not say.
std::string BitsText(const Json& layer);

// Rows of the table of outputs; the first row is the heading.
std::vector<std::vector<std::string>> OutputRows(const Json& report);

// Sizes, quantized nodes, calibration, partitions and offload, time. Simulated figures say so.
std::vector<Fact> FactsOf(const Json& report);

struct WarningText {
  std::string step;
  std::string text;
  size_t count = 1;  // warnings that it stands for
};
// Those of one step and kind as one (warning_groups.h).
std::vector<WarningText> WarningsOf(const Json& report);
size_t CountOf(const std::vector<WarningText>& warnings);

}  // namespace gq::report
