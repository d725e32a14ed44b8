#include "common/calibrate/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gq::calibrate {
namespace {

// numpy.linspace in the arithmetic of T.
template <typename T>
std::vector<double> EvenEdges(T low, T high, int64_t bins) {
  std::vector<double> edges(static_cast<size_t>(bins) + 1);
  const T delta = high - low;
  const T step = delta / static_cast<T>(bins);
  for (int64_t i = 0; i < bins; ++i) {
    const T offset =
        step == 0 ? static_cast<T>(i) / static_cast<T>(bins) * delta : static_cast<T>(i) * step;
    edges[static_cast<size_t>(i)] = static_cast<T>(offset + low);
  }
  edges.back() = high;
  return edges;
}

// numpy gives a range without width the width 1; where that is lost in rounding it has to be more.
template <typename T>
void OpenEmptyRange(T* low, T* high) {
  if (*low != *high) return;
  const T half = std::max<T>(T{0.5}, std::fabs(*low) * static_cast<T>(1e-6));
  *low -= half;
  *high += half;
}

// Values below this many are not worth a second thread.
constexpr size_t kParallelThreshold = 65536;

}  // namespace

uint64_t Histogram::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

void Histogram::SetEdges(std::vector<double> edges, int64_t shift) {
  std::vector<uint64_t> counts(edges.size() - 1, 0);
  const size_t kept = std::min(counts_.size(), counts.size() - static_cast<size_t>(shift));
  std::copy_n(counts_.begin(), kept, counts.begin() + shift);
  counts_ = std::move(counts);
  edges_ = BinEdges(std::move(edges));
}

void Histogram::Start(std::span<const float> values, const Extent& extent) {
  switch (spec_.kind) {
    case HistogramKind::kValue: {
      double low = extent.min;
      double high = extent.max;
      OpenEmptyRange(&low, &high);
      SetEdges(EvenEdges<double>(low, high, spec_.bins), 0);
      break;
    }
    case HistogramKind::kMagnitude: {
      float low = SmallestMagnitude(values);
      float high = extent.MaxAbs();
      OpenEmptyRange(&low, &high);
      SetEdges(EvenEdges<float>(low, high, spec_.bins), 0);
      break;
    }
    case HistogramKind::kSymmetric: {
      threshold_ = extent.MaxAbs();
      const float half = threshold_ == 0 ? 0.5f : threshold_;
      SetEdges(EvenEdges<float>(-half, half, spec_.bins), 0);
      break;
    }
  }
}

void Histogram::Rebin(std::vector<double> edges) {
  const BinEdges target(std::move(edges));
  std::vector<uint64_t> counts(static_cast<size_t>(target.bins()), 0);
  for (size_t i = 0; i < counts_.size(); ++i) {
    const int64_t bin = target.Find((edges_.edges()[i] + edges_.edges()[i + 1]) / 2);
    if (bin >= 0) counts[static_cast<size_t>(bin)] += counts_[i];
  }
  counts_ = std::move(counts);
  edges_ = target;
}

void Histogram::JoinPairs() {
  const std::vector<double>& old = edges_.edges();
  const double width = 2 * (old[1] - old[0]);
  const auto bins = (static_cast<int64_t>(counts_.size()) + 1) / 2;
  std::vector<uint64_t> counts(static_cast<size_t>(bins), 0);
  for (size_t i = 0; i < counts_.size(); ++i) counts[i / 2] += counts_[i];
  const double low = old.front();
  counts_ = std::move(counts);
  edges_ = BinEdges(EvenEdges<double>(low, low + width * static_cast<double>(bins), bins));
}

void Histogram::GrowValue(const Extent& extent) {
  if (extent.min >= edges_.low() && extent.max <= edges_.high()) return;
  while (true) {
    const double width = edges_.edges()[1] - edges_.edges()[0];
    const double left = std::max(0.0, std::ceil((edges_.low() - extent.min) / width));
    const double right = std::max(0.0, std::ceil((extent.max - edges_.high()) / width));
    const double bins = static_cast<double>(counts_.size()) + left + right;
    if (bins > static_cast<double>(max_bins_)) {
      JoinPairs();
      continue;
    }
    SetEdges(EvenEdges<double>(edges_.low() - left * width, edges_.high() + right * width,
                               static_cast<int64_t>(bins)),
             static_cast<int64_t>(left));
    return;
  }
}

void Histogram::GrowMagnitude(const Extent& extent) {
  const float largest = extent.MaxAbs();
  const auto high = static_cast<float>(edges_.high());
  if (!(largest > high)) return;
  // numpy.arange(high + width, largest + width, width) behind the old edges, in float32.
  const auto width = static_cast<float>(edges_.edges()[1]) - static_cast<float>(edges_.low());
  const float start = high + width;
  const float stop = largest + width;
  const double wanted = width > 0 ? std::ceil(static_cast<double>((stop - start) / width)) : 1;
  const double room = static_cast<double>(max_bins_ - static_cast<int64_t>(counts_.size()));
  if (!(wanted <= room)) {
    Rebin(EvenEdges<float>(static_cast<float>(edges_.low()), largest, max_bins_));
    return;
  }
  std::vector<double> edges = edges_.edges();
  const float delta = (start + width) - start;
  for (int64_t i = 0; i < static_cast<int64_t>(wanted); ++i) {
    edges.push_back(i == 1 ? start + width : start + static_cast<float>(i) * delta);
  }
  SetEdges(std::move(edges), 0);
}

void Histogram::GrowSymmetric(const Extent& extent) {
  const float largest = extent.MaxAbs();
  if (largest <= threshold_) return;
  const auto bins = static_cast<int64_t>(counts_.size());
  if (threshold_ == 0) {
    threshold_ = largest;
    SetEdges(EvenEdges<float>(-largest, largest, bins), 0);
    return;
  }
  const float stride = 2 * threshold_ / static_cast<float>(bins);
  const double extra = std::floor(static_cast<double>(largest - threshold_) / stride) + 1;
  const double room = static_cast<double>((max_bins_ - bins) / 2);
  if (!(extra <= room)) {
    threshold_ = largest;
    Rebin(EvenEdges<float>(-largest, largest, max_bins_));
    return;
  }
  const auto added = static_cast<int64_t>(extra);
  threshold_ = static_cast<float>(added) * stride + threshold_;
  SetEdges(EvenEdges<float>(-threshold_, threshold_, bins + 2 * added), added);
}

void Histogram::Add(std::span<const float> values, const Extent& extent,
                    runtime::ParallelLoop& loop, std::span<BinScratch> scratch) {
  if (values.empty() || extent.empty()) return;
  if (counts_.empty()) {
    Start(values, extent);
  } else if (spec_.kind == HistogramKind::kValue) {
    GrowValue(extent);
  } else if (spec_.kind == HistogramKind::kMagnitude) {
    GrowMagnitude(extent);
  } else {
    GrowSymmetric(extent);
  }
  const bool magnitude = spec_.kind == HistogramKind::kMagnitude;
  // With many more bins than values, clearing and adding banks would be the whole work.
  if (values.size() < kScratchThreshold || counts_.size() > values.size() / 4) {
    CountSmall(values, magnitude, edges_, counts_);
    return;
  }
  const size_t parts =
      values.size() < kParallelThreshold ? 1 : std::min(loop.workers(), scratch.size());
  const size_t share = (values.size() + parts - 1) / parts;
  loop.For(parts, [&](size_t part) {
    const size_t begin = std::min(values.size(), part * share);
    scratch[part].Reset(edges_.bins());
    CountLarge(values.subspan(begin, std::min(share, values.size() - begin)), magnitude, edges_,
               scratch[part]);
  });
  for (size_t part = 0; part < parts; ++part) scratch[part].AddTo(counts_);
}

}  // namespace gq::calibrate
