// Power-of-two scales: base position and squared errors of the five candidates.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "common/calibrate/histogram.h"
#include "common/calibrate/method.h"

namespace gq::calibrate {

// Candidate i has the scale 2^-(position - 1 + i): twice the base scale first.
inline constexpr int kCandidates = 5;

struct PowerOfTwoBase {
  int position = 0;
  // Of the integers; 0 for a range without values in an unsigned grid, as in Quark.
  double zero_point = 0;
  float Scale(int candidate) const;
};

// Base of a symmetric range around what was seen: rint(-log2(2A / steps)).
PowerOfTwoBase BaseOf(Range seen, Grid grid);

// Sum over all values of the squared error of each candidate, in double. Pieces of fixed size are
// summed in their order, so the result is the same for any number of threads.
std::array<double, kCandidates> SquaredErrors(std::span<const float> values,
                                              const PowerOfTwoBase& base, Grid grid,
                                              runtime::ParallelLoop& loop);

// The same over the centres of a histogram's bins.
std::array<double, kCandidates> SquaredErrors(const Histogram& histogram,
                                              const PowerOfTwoBase& base, Grid grid);

// The first of the least errors: of equal ones the larger scale wins.
int BestCandidate(const std::array<double, kCandidates>& errors);

// The range that the grid covers at a candidate's scale.
Range GridRange(const PowerOfTwoBase& base, int candidate, Grid grid);

}  // namespace gq::calibrate
