#include "common/calibrate/bin_counter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/calibrate/processor.h"

#if GQ_HAS_AVX2_TARGET
#include <immintrin.h>
#endif

namespace gq::calibrate {

BinEdges::BinEdges(std::vector<double> edges) : edges_(std::move(edges)) {
  const auto count = static_cast<double>(bins());
  const double span = high() - low();
  if (!(span > 0)) return;
  inverse_width_ = count / span;
  origin_ = static_cast<float>(low());
  inverse_ = static_cast<float>(inverse_width_);
  // Uneven spacing, the rounding of the origin, and three float32 operations, each in bins.
  double uneven = 0;
  for (int64_t i = 0; i <= bins(); ++i) {
    const double ideal = low() + static_cast<double>(i) / inverse_width_;
    uneven = std::max(uneven, std::fabs(edges_[static_cast<size_t>(i)] - ideal));
  }
  const double error = (uneven + std::fabs(origin_ - low())) * inverse_width_ + 4 * count * 0x1p-24;
  tolerance_ = static_cast<float>(1.5 * error + 1e-6);
  fast_ = tolerance_ < 0.05f && span < 1e38 && std::isnormal(inverse_) &&
          bins() < std::numeric_limits<int32_t>::max() / 2;
}

int64_t BinEdges::Find(double value) const {
  if (!(value >= low() && value <= high())) return -1;
  const int64_t last = bins() - 1;
  if (!fast_) {
    const auto above = std::upper_bound(edges_.begin(), edges_.end(), value);
    return std::min<int64_t>(above - edges_.begin() - 1, last);
  }
  int64_t bin =
      std::clamp<int64_t>(static_cast<int64_t>((value - low()) * inverse_width_), 0, last);
  while (bin > 0 && value < edges_[static_cast<size_t>(bin)]) --bin;
  while (bin < last && value >= edges_[static_cast<size_t>(bin) + 1]) ++bin;
  return bin;
}

void BinScratch::Reset(int64_t bins) {
  stride_ = bins + kSpare;
  cells_.assign(static_cast<size_t>(stride_ * kBanks), 0);
}

namespace {

void AddBanksPortable(const uint32_t* cells, int64_t stride, std::span<uint64_t> counts,
                      size_t begin) {
  for (size_t i = begin; i < counts.size(); ++i) {
    for (int bank = 0; bank < BinScratch::kBanks; ++bank)
      counts[i] += cells[bank * stride + static_cast<int64_t>(i)];
  }
}

#if GQ_HAS_AVX2_TARGET
__attribute__((target("avx2"))) void AddBanksAvx2(const uint32_t* cells, int64_t stride,
                                                  std::span<uint64_t> counts) {
  size_t i = 0;
  for (; i + 4 <= counts.size(); i += 4) {
    auto* const sum = reinterpret_cast<__m256i*>(counts.data() + i);
    __m256i total = _mm256_loadu_si256(sum);
    for (int bank = 0; bank < BinScratch::kBanks; ++bank) {
      const auto* const four =
          reinterpret_cast<const __m128i*>(cells + bank * stride + static_cast<int64_t>(i));
      total = _mm256_add_epi64(total, _mm256_cvtepu32_epi64(_mm_loadu_si128(four)));
    }
    _mm256_storeu_si256(sum, total);
  }
  AddBanksPortable(cells, stride, counts, i);
}
#endif

}  // namespace

void BinScratch::AddTo(std::span<uint64_t> counts) const {
#if GQ_HAS_AVX2_TARGET
  if (HasAvx2()) return AddBanksAvx2(cells_.data(), stride_, counts);
#endif
  AddBanksPortable(cells_.data(), stride_, counts, 0);
}

namespace {

void CountPortable(std::span<const float> values, bool magnitude, const BinEdges& edges,
                   std::span<uint64_t> counts) {
  for (const float value : values) {
    const int64_t bin = edges.Find(magnitude ? std::fabs(value) : value);
    if (bin >= 0) ++counts[static_cast<size_t>(bin)];
  }
}

#if GQ_HAS_AVX2_TARGET
// Looks those of eight values up for which `unsure` has a bit set.
void FindUnsure(const float* values, bool magnitude, const BinEdges& edges, unsigned unsure,
                int32_t* bins) {
  for (; unsure != 0; unsure &= unsure - 1) {
    const int lane = __builtin_ctz(unsure);
    const int64_t found = edges.Find(magnitude ? std::fabs(values[lane]) : values[lane]);
    bins[lane] = static_cast<int32_t>(found < 0 ? edges.bins() + lane : found);
  }
}

// Eight values at a time. `add(lane, bin)` counts; bins from edges.bins() on are spare cells. Zeros
// are many after a Relu and often lie on an edge, so they are counted apart.
template <typename Add>
__attribute__((target("avx2"), always_inline)) inline void CountAvx2(std::span<const float> values,
                                                                     bool magnitude,
                                                                     const BinEdges& edges, Add add,
                                                                     uint64_t* zeros) {
  const float* data = values.data();
  const auto bins = static_cast<int32_t>(edges.bins());
  const __m256 origin = _mm256_set1_ps(edges.origin());
  const __m256 inverse = _mm256_set1_ps(edges.inverse());
  const __m256 lower = _mm256_set1_ps(edges.tolerance());
  const __m256 upper = _mm256_set1_ps(1 - edges.tolerance());
  const __m256 keep = _mm256_castsi256_ps(_mm256_set1_epi32(magnitude ? 0x7fffffff : -1));
  const __m256i spare =
      _mm256_add_epi32(_mm256_set1_epi32(bins), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i last = _mm256_set1_epi32(bins);
  alignas(32) int32_t lanes[8];
  size_t i = 0;
  uint64_t zero_count = 0;
  for (; i + 8 <= values.size(); i += 8) {
    const __m256 x = _mm256_and_ps(_mm256_loadu_ps(data + i), keep);
    const __m256 place = _mm256_mul_ps(_mm256_sub_ps(x, origin), inverse);
    __m256i bin = _mm256_cvttps_epi32(place);
    const __m256 fraction = _mm256_sub_ps(place, _mm256_cvtepi32_ps(bin));
    const __m256 zero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ);
    const __m256 near_edge = _mm256_or_ps(_mm256_cmp_ps(fraction, lower, _CMP_LT_OQ),
                                          _mm256_cmp_ps(fraction, upper, _CMP_GT_OQ));
    bin = _mm256_blendv_epi8(_mm256_min_epi32(bin, last), spare, _mm256_castps_si256(zero));
    zero_count +=
        static_cast<uint64_t>(__builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(zero))));
    const auto unsure =
        static_cast<unsigned>(_mm256_movemask_ps(_mm256_andnot_ps(zero, near_edge)));
    if (__builtin_expect(unsure != 0, 0)) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), bin);
      FindUnsure(data + i, magnitude, edges, unsure, lanes);
      bin = _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes));
    }
    // Pairs of bins through general registers: fewer loads than through memory.
    const auto pair0 = static_cast<uint64_t>(_mm256_extract_epi64(bin, 0));
    const auto pair1 = static_cast<uint64_t>(_mm256_extract_epi64(bin, 1));
    const auto pair2 = static_cast<uint64_t>(_mm256_extract_epi64(bin, 2));
    const auto pair3 = static_cast<uint64_t>(_mm256_extract_epi64(bin, 3));
    add(0, static_cast<uint32_t>(pair0));
    add(1, static_cast<uint32_t>(pair0 >> 32));
    add(2, static_cast<uint32_t>(pair1));
    add(3, static_cast<uint32_t>(pair1 >> 32));
    add(4, static_cast<uint32_t>(pair2));
    add(5, static_cast<uint32_t>(pair2 >> 32));
    add(6, static_cast<uint32_t>(pair3));
    add(7, static_cast<uint32_t>(pair3 >> 32));
  }
  for (; i < values.size(); ++i) {
    const int64_t found = edges.Find(magnitude ? std::fabs(data[i]) : data[i]);
    if (found >= 0) add(0, static_cast<uint32_t>(found));
  }
  *zeros = zero_count;
}

__attribute__((target("avx2"))) uint64_t CountLargeAvx2(std::span<const float> values,
                                                        bool magnitude, const BinEdges& edges,
                                                        BinScratch& scratch) {
  uint32_t* const banks[4] = {scratch.bank(0), scratch.bank(1), scratch.bank(2), scratch.bank(3)};
  uint64_t zeros = 0;
  CountAvx2(
      values, magnitude, edges, [&](int lane, uint32_t bin) { ++banks[lane & 3][bin]; }, &zeros);
  return zeros;
}

__attribute__((target("avx2"))) uint64_t CountSmallAvx2(std::span<const float> values,
                                                        bool magnitude, const BinEdges& edges,
                                                        std::span<uint64_t> counts) {
  uint64_t* const cells = counts.data();
  const auto bins = static_cast<uint32_t>(edges.bins());
  uint64_t spare[BinScratch::kSpare] = {};
  uint64_t zeros = 0;
  CountAvx2(
      values, magnitude, edges,
      [&](int lane, uint32_t bin) { ++*(bin < bins ? cells + bin : spare + lane); }, &zeros);
  return zeros;
}
#endif

}  // namespace

void CountSmall(std::span<const float> values, bool magnitude, const BinEdges& edges,
                std::span<uint64_t> counts) {
#if GQ_HAS_AVX2_TARGET
  if (edges.fast() && HasAvx2()) {
    const uint64_t zeros = CountSmallAvx2(values, magnitude, edges, counts);
    const int64_t bin = edges.Find(0);
    if (bin >= 0) counts[static_cast<size_t>(bin)] += zeros;
    return;
  }
#endif
  CountPortable(values, magnitude, edges, counts);
}

void CountLarge(std::span<const float> values, bool magnitude, const BinEdges& edges,
                BinScratch& scratch) {
#if GQ_HAS_AVX2_TARGET
  if (edges.fast() && HasAvx2()) {
    const uint64_t zeros = CountLargeAvx2(values, magnitude, edges, scratch);
    const int64_t bin = edges.Find(0);
    if (bin >= 0) scratch.bank(0)[bin] += static_cast<uint32_t>(zeros);
    return;
  }
#endif
  uint32_t* cells = scratch.bank(0);
  for (const float value : values) {
    const int64_t bin = edges.Find(magnitude ? std::fabs(value) : value);
    if (bin >= 0) ++cells[bin];
  }
}

}  // namespace gq::calibrate
