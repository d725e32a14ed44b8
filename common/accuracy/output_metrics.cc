#include "common/accuracy/output_metrics.h"

#include <Eigen/Core>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <functional>

namespace gq::accuracy {
namespace {

constexpr int kBlock = 512;
constexpr double kRelativeFloor = 1e-30;
constexpr double kPercentile = 0.9999;
constexpr size_t kScatterPoints = 512;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Block = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, kBlock, 1>;
using BlockMap = Eigen::Map<const Eigen::ArrayXd>;

double Db(double ratio) { return 10 * std::log10(ratio); }

double Psnr(double peak, double mse) {
  if (mse == 0) return kInfinity;
  if (peak == 0) return 0;
  return Db(peak * peak / mse);
}

}  // namespace

void OutputMetrics::Moments::Merge(const Moments& b) {
  if (b.n == 0) return;
  const double total = n + b.n;
  const double delta = b.mean - mean;
  const double d_n = delta / total;
  const double cross = delta * d_n * n * b.n;
  m4 += b.m4 + cross * d_n * d_n * (n * n - n * b.n + b.n * b.n) +
        6 * d_n * d_n * (n * n * b.m2 + b.n * b.n * m2) + 4 * d_n * (n * b.m3 - b.n * m3);
  m3 += b.m3 + cross * d_n * (n - b.n) + 3 * d_n * (n * b.m2 - b.n * m2);
  m2 += b.m2 + cross;
  mean += d_n * b.n;
  n = total;
}

OutputMetrics::OutputMetrics(const OutputMetricsOptions& options)
    : options_(options),
      min_r_(kInfinity),
      max_r_(-kInfinity),
      min_a_(kInfinity),
      max_a_(-kInfinity),
      sample_psnr_min_(kInfinity) {
  // The interpolated percentile of n sorted errors reads those at floor and ceil of 0.9999 (n - 1).
  const double above = (1 - kPercentile) * static_cast<double>(options.expected_elements);
  tail_capacity_ = static_cast<size_t>(std::ceil(above)) + 2;
}

void OutputMetrics::AddSample(std::span<const float> reference, std::span<const float> candidate) {
  Add(reference, candidate);
}

void OutputMetrics::AddSample(std::span<const double> reference,
                              std::span<const double> candidate) {
  Add(reference, candidate);
}

template <typename T>
void OutputMetrics::Add(std::span<const T> reference, std::span<const T> candidate) {
  assert(reference.size() == candidate.size());
  sample_squared_error_ = sample_peak_ = 0;
  sample_compared_ = sample_broken_ = 0;
  double r[kBlock], a[kBlock];
  for (size_t begin = 0; begin < reference.size(); begin += kBlock) {
    const size_t count = std::min<size_t>(kBlock, reference.size() - begin);
    double finite = 0;
    for (size_t i = 0; i < count; ++i) {
      r[i] = static_cast<double>(reference[begin + i]);
      a[i] = static_cast<double>(candidate[begin + i]);
      finite += (r[i] - r[i]) + (a[i] - a[i]);  // NaN as soon as one value is not finite
    }
    size_t kept = count;
    if (finite != 0) {
      kept = 0;
      for (size_t i = 0; i < count; ++i) {
        const bool finite_r = std::isfinite(r[i]), finite_a = std::isfinite(a[i]);
        nonfinite_reference_ += !finite_r;
        nonfinite_candidate_ += !finite_a;
        if (finite_r && finite_a) {
          r[kept] = r[i];
          a[kept++] = a[i];
        } else if (r[i] == a[i] || (std::isnan(r[i]) && std::isnan(a[i]))) {
          ++passed_;
          ++step_allows_;
        } else {
          ++sample_broken_;
          if (broken_ + sample_broken_ == 1) {
            worst_sample_ = samples_;
            worst_element_ = static_cast<int64_t>(begin + i);
          }
        }
      }
    }
    if (kept > 0) AddBlock(r, a, static_cast<int>(kept), static_cast<int64_t>(begin));
  }
  if (scatter_.size() < kScatterPoints && !reference.empty()) {
    const size_t wanted = std::min<size_t>(32, reference.size());
    // An odd offset that moves with the sample, so that samples do not show the same elements.
    for (size_t i = 0; i < wanted && scatter_.size() < kScatterPoints; ++i) {
      const size_t at =
          (i * reference.size() / wanted + static_cast<size_t>(samples_) * 7919) % reference.size();
      scatter_.push_back({static_cast<float>(reference[at]), static_cast<float>(candidate[at])});
    }
  }
  if (sample_broken_ == 0 && sample_compared_ > 0) {
    const double psnr =
        Psnr(sample_peak_, sample_squared_error_ / static_cast<double>(sample_compared_));
    if (std::isfinite(psnr)) {
      sample_psnr_sum_ += psnr;
      ++sample_psnr_count_;
      if (psnr < sample_psnr_min_) {
        sample_psnr_min_ = psnr;
        sample_psnr_min_index_ = samples_;
      }
    }
  }
  sum_squared_error_ += sample_squared_error_;
  compared_ += sample_compared_;
  broken_ += sample_broken_;
  elements_ += static_cast<int64_t>(reference.size());
  peak_ = std::max(peak_, sample_peak_);
  ++samples_;
}

void OutputMetrics::AddBlock(const double* reference, const double* candidate, int count,
                             int64_t offset) {
  const BlockMap r(reference, count), a(candidate, count);
  const Block d = r - a;
  const Block error = d.abs();
  const Block size = r.abs();
  const Block tolerance = options_.atol + options_.rtol * size;
  sample_compared_ += count;
  sample_squared_error_ += (d * d).sum();
  sum_abs_error_ += error.sum();
  sum_rr_ += (r * r).sum();
  sum_aa_ += (a * a).sum();
  sum_ra_ += (r * a).sum();
  const double half_step = options_.quantization_step / 2;
  int passed = 0, allowed = 0;
  for (int i = 0; i < count; ++i) {
    passed += error[i] <= tolerance[i] ? 1 : 0;
    allowed += tolerance[i] >= half_step ? 1 : 0;
  }
  passed_ += passed;
  step_allows_ += allowed;
  sample_peak_ = std::max(sample_peak_, size.maxCoeff());

  const double block_min_r = r.minCoeff(), block_max_r = r.maxCoeff();
  const double block_min_a = a.minCoeff(), block_max_a = a.maxCoeff();
  min_r_ = std::min(min_r_, block_min_r);
  max_r_ = std::max(max_r_, block_max_r);
  min_a_ = std::min(min_a_, block_min_a);
  max_a_ = std::max(max_a_, block_max_a);

  const double block_max = error.maxCoeff();
  if (block_max > max_abs_) {
    max_abs_ = block_max;
    if (broken_ + sample_broken_ == 0) {
      worst_sample_ = samples_;
      worst_element_ = offset + (std::find(error.begin(), error.end(), block_max) - error.begin());
    }
  }
  // Elements of (nearly) zero have no relative error: they count as 0 and not at all.
  Block relative(count);
  int related = 0;
  for (int i = 0; i < count; ++i) {
    const bool relates = size[i] > kRelativeFloor;
    relative[i] = relates ? error[i] / size[i] : 0.0;
    related += relates ? 1 : 0;
  }
  sum_relative_ += relative.sum();
  max_relative_ = std::max(max_relative_, relative.maxCoeff());
  relative_count_ += related;
  if (tail_.size() < tail_capacity_ || block_max > tail_.front()) {
    for (int i = 0; i < count; ++i) AddTail(error[i]);
  }

  const auto block_moments = [count](const BlockMap& x) {
    Moments block;
    block.n = count;
    block.mean = x.mean();
    const Block centred = x - block.mean;
    const Block squared = centred * centred;
    block.m2 = squared.sum();
    block.m3 = (squared * centred).sum();
    block.m4 = (squared * squared).sum();
    return block;
  };
  moments_r_.Merge(block_moments(r));
  moments_a_.Merge(block_moments(a));

  if (options_.histogram) {
    histogram_.Reserve(std::max({std::abs(block_min_r), std::abs(block_max_r),
                                 std::abs(block_min_a), std::abs(block_max_a)}));
    for (int i = 0; i < count; ++i) histogram_.AddReference(r[i]);
    for (int i = 0; i < count; ++i) histogram_.AddCandidate(a[i]);
  }
}

void OutputMetrics::AddTail(double error) {
  if (tail_.size() < tail_capacity_) {
    tail_.push_back(error);
    std::push_heap(tail_.begin(), tail_.end(), std::greater<>());
  } else if (error > tail_.front()) {
    std::pop_heap(tail_.begin(), tail_.end(), std::greater<>());
    tail_.back() = error;
    std::push_heap(tail_.begin(), tail_.end(), std::greater<>());
  }
}

double OutputMetrics::TailPercentile() const {
  if (tail_.empty()) return 0;
  std::vector<double> sorted = tail_;
  std::sort(sorted.begin(), sorted.end());
  // sorted[i] is the error at rank compared_ - sorted.size() + i of all errors.
  const double rank = kPercentile * static_cast<double>(compared_ - 1);
  const double below = static_cast<double>(compared_) - static_cast<double>(sorted.size());
  const double position = std::max(rank - below, 0.0);
  const auto index = std::min(static_cast<size_t>(position), sorted.size() - 1);
  const size_t next = std::min(index + 1, sorted.size() - 1);
  const double fraction = std::min(position - static_cast<double>(index), 1.0);
  return sorted[index] + fraction * (sorted[next] - sorted[index]);
}

OutputFigures OutputMetrics::Figures() const {
  OutputFigures f;
  f.samples = samples_;
  f.elements = elements_;
  f.nonfinite_reference = nonfinite_reference_;
  f.nonfinite_candidate = nonfinite_candidate_;
  f.worst_sample = worst_sample_;
  f.worst_element = worst_element_;
  if (elements_ > 0) {
    f.pass_rate = 100.0 * static_cast<double>(passed_) / static_cast<double>(elements_);
    f.step_allows_pass_rate =
        100.0 * static_cast<double>(step_allows_) / static_cast<double>(elements_);
  }
  if (sample_psnr_count_ > 0) {
    f.sample_psnr_mean_db = sample_psnr_sum_ / static_cast<double>(sample_psnr_count_);
    f.sample_psnr_min_db = sample_psnr_min_;
    f.sample_psnr_min_index = sample_psnr_min_index_;
  }
  f.peak_reference = peak_;
  if (compared_ > 0) {
    const double n = static_cast<double>(compared_);
    f.mse = sum_squared_error_ / n;
    f.mae = sum_abs_error_ / n;
    f.max_abs = max_abs_;
    f.psnr_db = Psnr(peak_, f.mse);
    f.snr_db = sum_squared_error_ == 0 ? kInfinity : Db(sum_rr_ / sum_squared_error_);
    const double norm = std::sqrt(sum_rr_) * std::sqrt(sum_aa_);
    f.cosine = norm == 0 ? 1.0 : sum_ra_ / norm;
    f.max_relative = max_relative_;
    f.mean_relative =
        relative_count_ == 0 ? 0 : sum_relative_ / static_cast<double>(relative_count_);
    f.percentile_max = TailPercentile();
    const auto kurtosis = [](const Moments& m) {
      return m.m2 > 0 ? m.n * m.m4 / (m.m2 * m.m2) : kNan;
    };
    f.kurtosis_reference = kurtosis(moments_r_);
    f.kurtosis_ratio = kurtosis(moments_a_) / f.kurtosis_reference;
    f.kl = options_.histogram
               ? histogram_.KlDivergence(std::min(min_r_, min_a_), std::max(max_r_, max_a_))
               : kNan;
    f.min_reference = min_r_;
    f.max_reference = max_r_;
    f.min_candidate = min_a_;
    f.max_candidate = max_a_;
  } else {
    f.psnr_db = f.snr_db = kInfinity;
    f.kurtosis_reference = f.kurtosis_ratio = kNan;
    f.kl = options_.histogram ? 0 : kNan;
  }
  if (broken_ > 0) {
    f.mse = f.mae = f.max_abs = f.max_relative = f.mean_relative = f.percentile_max = kInfinity;
    f.psnr_db = f.snr_db = -kInfinity;
    f.cosine = f.kurtosis_ratio = f.kl = kNan;
  }
  return f;
}

}  // namespace gq::accuracy
