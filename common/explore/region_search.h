// Finds the regions whose promotion helps most, from measurements on few samples.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::explore {

// Score in dB of a set of promoted regions; larger is better. `ranking`: one sample is enough, and
// every decibel counts, even beyond what a goal asks for.
using ScoreFunction =
    std::function<absl::StatusOr<double>(const std::vector<bool>& promoted, bool ranking)>;

struct SearchOptions {
  int most = 0;  // promotions, those of the start included
  // Regions that may be taken together: where a block helps at least as much a region as the best
  // single one, it is taken as a whole, for fewer conversions.
  std::vector<std::vector<size_t>> blocks;
  // Asked between measurements; true ends the search with what it has.
  std::function<bool()> out_of_time;
};

struct RegionPath {
  std::vector<size_t> regions;  // in the order of their promotion, behind those of the start
  std::vector<double> scores;   // with the first 0, 1, ... of them; one more than regions
};

// Orders the regions of `candidates`. First each is measured alone (all others promoted: the damage
// it does) and as the first promotion (the gain). Then the path grows: of the few best by either
// figure the one that helps most is measured and taken; members that cost least are swapped for
// others while that helps. Deterministic but for out_of_time. Errors of `score`.
absl::StatusOr<RegionPath> SearchRegions(const std::vector<size_t>& candidates,
                                         const std::vector<bool>& start, const ScoreFunction& score,
                                         const SearchOptions& options);

}  // namespace gq::explore
