// Two histograms over the same bins, whose range grows with the values.
#pragma once

#include <cstdint>
#include <vector>

namespace gq::accuracy {

// Histograms of the values of a reference and of a candidate output. The bins are symmetric around
// 0 and their range doubles when a value lies outside, so that one pass over the data is enough.
// Not thread-safe.
class ValueHistogram {
 public:
  // Makes room for values up to `peak` in magnitude. Must be called before values of that size are
  // added.
  void Reserve(double peak);

  void AddReference(double value) { ++reference_[Bin(value)]; }
  void AddCandidate(double value) { ++candidate_[Bin(value)]; }

  // KL(reference || candidate) in nats over 2048 equal bins of [low, high], every bin's share
  // raised by 1e-10 and the shares normalised again, so that bins that the candidate leaves empty
  // weigh a finite amount. 0 without values.
  double KlDivergence(double low, double high) const;

 private:
  static constexpr int kFineBins = 1 << 15;

  int Bin(double value) const {
    const int bin = static_cast<int>((value + range_) * scale_);
    return bin < 0 ? 0 : (bin >= kFineBins ? kFineBins - 1 : bin);
  }
  std::vector<double> Shares(const std::vector<uint64_t>& fine, double low, double high) const;

  double range_ = 0;  // bins cover [-range_, range_]
  double scale_ = 0;  // bins per unit
  std::vector<uint64_t> reference_;
  std::vector<uint64_t> candidate_;
};

}  // namespace gq::accuracy
