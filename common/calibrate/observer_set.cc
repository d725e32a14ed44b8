#include "common/calibrate/observer_set.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/text.h"

namespace gq::calibrate {
namespace {

constexpr size_t kScanPiece = 65536;

}  // namespace

ObserverSet::ObserverSet(const ObservationPlan& plan, NonFinitePolicy policy, size_t workers)
    : plan_(plan), policy_(policy), scratch_(std::max<size_t>(workers, 1)) {}

int64_t ObserverSet::Add(std::string tensor, Grid grid) {
  observers_.emplace_back(std::move(tensor), grid, plan_);
  return size() - 1;
}

void ObserverSet::StartPass(Pass pass) {
  pass_ = pass;
  if (pass == Pass::kRawErrors) {
    for (TensorObserver& observer : observers_) observer.StartRawErrors();
  }
}

void ObserverSet::StartSample() { trouble_.clear(); }

Extent ObserverSet::Scan(std::span<const float> values, runtime::ParallelLoop& loop) {
  const size_t parts = std::min(loop.workers(), values.size() / kScanPiece);
  if (parts < 2) return ScanExtent(values);
  std::vector<Extent> extents(parts);
  const size_t share = (values.size() + parts - 1) / parts;
  loop.For(parts, [&](size_t part) {
    const size_t begin = part * share;
    extents[part] = ScanExtent(values.subspan(begin, std::min(share, values.size() - begin)));
  });
  for (size_t part = 1; part < parts; ++part) extents[0].Merge(extents[part]);
  return extents[0];
}

std::span<const float> ObserverSet::Mend(std::span<const float> values) {
  mended_values_.clear();
  mended_values_.reserve(values.size());
  for (const float value : values) {
    if (std::isfinite(value)) {
      mended_values_.push_back(value);
    } else if (policy_ == NonFinitePolicy::kReplace) {
      constexpr float kLargest = std::numeric_limits<float>::max();
      mended_values_.push_back(std::isnan(value) ? 0 : value > 0 ? kLargest : -kLargest);
    }
  }
  return mended_values_;
}

void ObserverSet::Observe(int64_t number, std::span<const float> values,
                          runtime::ParallelLoop& loop) {
  TensorObserver& observer = at(number);
  Extent extent = Scan(values, loop);
  if (!extent.finite()) {
    const bool mend = policy_ == NonFinitePolicy::kReplace ||
                      (policy_ == NonFinitePolicy::kIgnoreInfinity && !extent.has_nan);
    if (!mend) {
      if (trouble_.empty()) {
        trouble_ = base::StrCat("tensor '", observer.name(), "' has ",
                                extent.has_nan ? "NaN" : "infinite values");
      }
      return;
    }
    if (std::find(mended_.begin(), mended_.end(), observer.name()) == mended_.end()) {
      mended_.push_back(observer.name());
    }
    values = Mend(values);
    extent = ScanExtent(values);
  }
  if (pass_ == Pass::kStatistics) {
    observer.Observe(values, extent, loop, scratch_);
  } else if (pass_ == Pass::kRawErrors) {
    observer.ObserveRawErrors(values, loop);
  }
}

}  // namespace gq::calibrate
