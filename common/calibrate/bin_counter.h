// Counts values into the bins of a histogram, exactly as a comparison with every edge would.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gq::calibrate {

// Edges of a histogram with what a fast look-up needs. Bin i holds edge[i] <= x < edge[i + 1], the
// last bin its upper edge too; values outside are not counted.
class BinEdges {
 public:
  BinEdges() = default;
  // `edges` ascend and are nearly evenly spaced; there are at least two.
  explicit BinEdges(std::vector<double> edges);

  const std::vector<double>& edges() const { return edges_; }
  int64_t bins() const { return static_cast<int64_t>(edges_.size()) - 1; }
  double low() const { return edges_.front(); }
  double high() const { return edges_.back(); }

  // Bin of a value, -1 outside.
  int64_t Find(double value) const;

  // For the fast look-up: bin ~ (x - origin) * inverse in float32, exact unless the fraction is
  // within `tolerance` of a whole number. Not usable when the spacing is too fine for float32.
  bool fast() const { return fast_; }
  float origin() const { return origin_; }
  float inverse() const { return inverse_; }
  float tolerance() const { return tolerance_; }

 private:
  std::vector<double> edges_;
  double inverse_width_ = 0;
  bool fast_ = false;
  float origin_ = 0;
  float inverse_ = 0;
  float tolerance_ = 0;
};

// Counters of one thread for large pieces: four banks against chains of dependent increments, each
// with eight further cells that nothing reads.
class BinScratch {
 public:
  static constexpr int kBanks = 4;
  static constexpr int kSpare = 8;

  // Clears counters for `bins` bins.
  void Reset(int64_t bins);
  uint32_t* bank(int index) { return cells_.data() + index * stride_; }
  // Adds the counters of all banks to `counts`.
  void AddTo(std::span<uint64_t> counts) const;

 private:
  std::vector<uint32_t> cells_;
  int64_t stride_ = 0;
};

// Adds the values (their magnitudes when `magnitude`) to `counts`, one cell a bin. `scratch` must
// have been reset for this number of bins; it is used for large pieces only, and `counts` then
// stays as it is until AddTo. At most 2^31 values between two resets.
inline constexpr size_t kScratchThreshold = 8192;
void CountSmall(std::span<const float> values, bool magnitude, const BinEdges& edges,
                std::span<uint64_t> counts);
void CountLarge(std::span<const float> values, bool magnitude, const BinEdges& edges,
                BinScratch& scratch);

}  // namespace gq::calibrate
