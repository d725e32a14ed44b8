#include "common/accuracy/value_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace gq::accuracy {
namespace {

constexpr int kBins = 2048;
constexpr double kFloor = 1e-10;

// Bins for twice the range: two old bins make a new one, around the middle.
void Halve(std::vector<uint64_t>& bins) {
  std::vector<uint64_t> wider(bins.size(), 0);
  for (size_t i = 0; i < bins.size(); ++i) wider[bins.size() / 4 + i / 2] += bins[i];
  bins.swap(wider);
}

}  // namespace

void ValueHistogram::Reserve(double peak) {
  if (reference_.empty()) {
    reference_.assign(kFineBins, 0);
    candidate_.assign(kFineBins, 0);
  }
  if (range_ == 0) {
    if (peak == 0) return;  // everything so far is 0 and sits in bin 0; see below
    range_ = std::exp2(std::ceil(std::log2(peak)));
    scale_ = kFineBins / (2 * range_);
    std::swap(reference_[0], reference_[kFineBins / 2]);
    std::swap(candidate_[0], candidate_[kFineBins / 2]);
  }
  while (range_ < peak) {
    Halve(reference_);
    Halve(candidate_);
    range_ *= 2;
    scale_ = kFineBins / (2 * range_);
  }
}

std::vector<double> ValueHistogram::Shares(const std::vector<uint64_t>& fine, double low,
                                           double high) const {
  std::vector<double> shares(kBins, 0.0);
  double total = 0;
  for (int i = 0; i < kFineBins; ++i) {
    if (fine[i] == 0) continue;
    const double centre = (i + 0.5) / scale_ - range_;
    const double position = (centre - low) / (high - low) * kBins;
    const int bin = std::clamp(static_cast<int>(std::floor(position)), 0, kBins - 1);
    shares[bin] += static_cast<double>(fine[i]);
    total += static_cast<double>(fine[i]);
  }
  if (total == 0) return shares;
  for (double& share : shares) share = (share / total + kFloor) / (1 + kBins * kFloor);
  return shares;
}

double ValueHistogram::KlDivergence(double low, double high) const {
  if (range_ == 0 || !(low < high)) return 0;
  const std::vector<double> p = Shares(reference_, low, high);
  const std::vector<double> q = Shares(candidate_, low, high);
  double kl = 0;
  for (int i = 0; i < kBins; ++i) {
    if (p[i] > 0 && q[i] > 0) kl += p[i] * std::log(p[i] / q[i]);
  }
  return std::max(kl, 0.0);
}

}  // namespace gq::accuracy
