// Histograms that grow with the data, with the edges that numpy and Quark would choose.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "common/calibrate/bin_counter.h"
#include "common/calibrate/value_extent.h"
#include "common/runtime/parallel_loop.h"

namespace gq::calibrate {

// Where the edges lie. The first sample fixes the width of a bin; later samples add bins.
enum class HistogramKind {
  // Over [min, max] of the first sample in double; grows on both sides by whole bins (Quark's
  // MinMSE).
  kValue,
  // Of |x| over [min |x|, max |x|] of the first sample in float32; grows at the upper end
  // (symmetric percentile).
  kMagnitude,
  // Over [-A, A] in float32; grows on both sides alike (ONNX Runtime's entropy, distribution and
  // asymmetric percentile).
  kSymmetric,
};

struct HistogramSpec {
  HistogramKind kind = HistogramKind::kValue;
  int64_t bins = 2048;
  friend auto operator<=>(const HistogramSpec&, const HistogramSpec&) = default;
};

class Histogram {
 public:
  // Never has more than `max_bins` bins: then bins become wider instead of more, and old counts go
  // to the bin of their old centre.
  Histogram(const HistogramSpec& spec, int64_t max_bins) : spec_(spec), max_bins_(max_bins) {}

  const HistogramSpec& spec() const { return spec_; }
  bool empty() const { return counts_.empty(); }
  const std::vector<double>& edges() const { return edges_.edges(); }
  const std::vector<uint64_t>& counts() const { return counts_; }
  uint64_t total() const;

  // Adds one sample's values, all finite; `extent` is theirs. `scratch` has one element a worker of
  // `loop`. The result does not depend on the number of workers.
  void Add(std::span<const float> values, const Extent& extent, runtime::ParallelLoop& loop,
           std::span<BinScratch> scratch);

 private:
  void Start(std::span<const float> values, const Extent& extent);
  void GrowValue(const Extent& extent);
  void GrowMagnitude(const Extent& extent);
  void GrowSymmetric(const Extent& extent);
  // Takes new edges; the old counts move up by `shift` bins.
  void SetEdges(std::vector<double> edges, int64_t shift);
  // Takes other edges; old counts go by the centre of their bin.
  void Rebin(std::vector<double> edges);
  void JoinPairs();

  HistogramSpec spec_;
  int64_t max_bins_;
  BinEdges edges_;
  std::vector<uint64_t> counts_;
  float threshold_ = 0;  // kSymmetric: A
};

}  // namespace gq::calibrate
