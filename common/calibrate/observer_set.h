// The observers of one calibration and what happens to every tensor that reaches them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/calibrate/tensor_observer.h"
#include "common/runtime/parallel_loop.h"

namespace gq::calibrate {

enum class Pass {
  kStatistics,
  kRawErrors,
  kDetect,  // look for values that are not finite, keep nothing
};

enum class NonFinitePolicy {
  kReport,          // note it; the caller decides about the sample
  kIgnoreInfinity,  // count without infinities (the model itself makes them); note NaN
  kReplace,         // NaN by 0, infinities by the largest float (Quark)
};

// Used by one thread at a time: kernels of one run follow one another.
class ObserverSet {
 public:
  ObserverSet(const ObservationPlan& plan, NonFinitePolicy policy, size_t workers);

  // Adds an observer and returns its number.
  int64_t Add(std::string tensor, Grid grid);
  TensorObserver& at(int64_t number) { return observers_[static_cast<size_t>(number)]; }
  int64_t size() const { return static_cast<int64_t>(observers_.size()); }

  void StartPass(Pass pass);
  void StartSample();
  // One tensor of the present sample.
  void Observe(int64_t number, std::span<const float> values, runtime::ParallelLoop& loop);

  // First tensor of the present sample with values that are not finite, and what they are; empty
  // when there was none.
  const std::string& trouble() const { return trouble_; }
  // Tensors whose infinities were ignored or whose values were replaced.
  const std::vector<std::string>& mended() const { return mended_; }

 private:
  Extent Scan(std::span<const float> values, runtime::ParallelLoop& loop);
  // Finite values in place of those given, in mended_values_.
  std::span<const float> Mend(std::span<const float> values);

  ObservationPlan plan_;
  NonFinitePolicy policy_;
  Pass pass_ = Pass::kStatistics;
  std::vector<TensorObserver> observers_;
  std::vector<BinScratch> scratch_;
  std::string trouble_;
  std::vector<std::string> mended_;
  std::vector<float> mended_values_;
};

}  // namespace gq::calibrate
