#include "common/accuracy/class_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace gq::accuracy {
namespace {

constexpr double kSumTolerance = 1e-3;
constexpr double kShareFloor = 1e-12;  // keeps the logarithm of an underflowed share finite

double Percent(int64_t part, int64_t whole, double when_empty) {
  return whole == 0 ? when_empty : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::optional<ClassLayout> ClassLayoutOf(std::span<const int64_t> shape, std::optional<int> axis) {
  const int rank = static_cast<int>(shape.size());
  for (int64_t dim : shape) {
    if (dim < 1) return std::nullopt;
  }
  if (rank == 0) return std::nullopt;
  int at;
  if (axis) {
    at = *axis < 0 ? *axis + rank : *axis;
    if (at < 0 || at >= rank) return std::nullopt;
  } else if (rank <= 3) {
    at = rank - 1;
  } else {
    const auto spatial = shape.subspan(2);
    const bool flat = std::all_of(spatial.begin(), spatial.end(), [](int64_t d) { return d == 1; });
    at = !flat && shape[1] == 1 && shape[2] == 1 ? rank - 1 : 1;
  }
  ClassLayout layout;
  for (int i = 0; i < rank; ++i) {
    (i < at ? layout.outer : i == at ? layout.classes : layout.inner) *= i == at ? 1 : shape[i];
  }
  layout.classes = shape[at];
  if (layout.classes < 2) return std::nullopt;
  return layout;
}

bool IsMaskShape(std::span<const int64_t> shape) {
  if (shape.size() != 4 || std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 1; }))
    return false;
  return (shape[1] == 1 && shape[2] * shape[3] > 1) || (shape[3] == 1 && shape[1] * shape[2] > 1);
}

std::vector<float> MaskScores(std::span<const float> values, bool logits) {
  std::vector<float> scores;
  scores.reserve(2 * values.size());
  for (const float value : values) {
    const float object = logits ? 1 / (1 + std::exp(-value)) : value;
    scores.push_back(1 - object);
    scores.push_back(object);
  }
  return scores;
}

void ClassMetrics::Row::Load(std::span<const float> values, int64_t begin,
                             const ClassLayout& layout) {
  const auto n = static_cast<size_t>(layout.classes);
  scores.resize(n);
  distribution.resize(n);
  best = 0;
  double sum = 0;
  bool positive = true;
  for (size_t c = 0; c < n; ++c) {
    const double value = values[static_cast<size_t>(begin) + c * static_cast<size_t>(layout.inner)];
    scores[c] = value;
    sum += value;
    positive = positive && value >= 0;
    if (value > scores[best] || (std::isnan(scores[best]) && !std::isnan(value))) {
      best = static_cast<int64_t>(c);
    }
  }
  if (positive && std::abs(sum - 1) <= kSumTolerance) {
    for (size_t c = 0; c < n; ++c) distribution[c] = scores[c] / sum;
    return;
  }
  double total = 0;
  for (size_t c = 0; c < n; ++c) total += distribution[c] = std::exp(scores[c] - scores[best]);
  for (double& share : distribution) share /= total;
}

bool ClassMetrics::Row::InTop5(int64_t label) const {
  const double score = scores[label];
  if (std::isnan(score)) return false;
  int64_t better = 0;
  for (size_t c = 0; c < scores.size(); ++c) {
    better += scores[c] > score || (scores[c] == score && static_cast<int64_t>(c) < label);
  }
  return better < 5;
}

void ClassMetrics::AddSample(std::span<const float> reference, std::span<const float> candidate,
                             std::span<const int64_t> labels) {
  int64_t row = 0;
  for (int64_t o = 0; o < layout_.outer; ++o) {
    for (int64_t i = 0; i < layout_.inner; ++i, ++row) {
      const int64_t begin = o * layout_.classes * layout_.inner + i;
      r_.Load(reference, begin, layout_);
      a_.Load(candidate, begin, layout_);
      ++rows_;
      // A candidate row of NaN alone has no winner and agrees with nothing.
      const bool chosen = !std::isnan(a_.scores[a_.best]);
      equal_ += chosen && r_.best == a_.best;
      in_top5_ += a_.InTop5(r_.best);
      for (int64_t c = 0; c < layout_.classes; ++c) {
        const double p = r_.distribution[c];
        if (p > 0) kl_ += p * std::log(p / std::max(a_.distribution[c], kShareFloor));
      }
      const int64_t label = labels.empty() ? -1 : labels[row];
      if (label < 0) continue;
      ++labelled_;
      top1_ += chosen && a_.best == label;
      top5_ += a_.InTop5(label);
      reference_top1_ += r_.best == label;
      reference_top5_ += r_.InTop5(label);
    }
  }
}

ClassFigures ClassMetrics::Figures() const {
  ClassFigures f;
  f.rows = rows_;
  f.agreement = Percent(equal_, rows_, 100);
  f.top5_agreement = Percent(in_top5_, rows_, 100);
  f.kl = rows_ == 0 ? 0 : std::max(kl_ / static_cast<double>(rows_), 0.0);
  if (std::isnan(kl_)) f.kl = kl_;
  f.labelled = labelled_;
  f.top1 = Percent(top1_, labelled_, 0);
  f.top5 = Percent(top5_, labelled_, 0);
  f.reference_top1 = Percent(reference_top1_, labelled_, 0);
  f.reference_top5 = Percent(reference_top5_, labelled_, 0);
  return f;
}

bool IsDistribution(std::span<const float> values, const ClassLayout& layout) {
  for (int64_t o = 0; o < layout.outer; ++o) {
    for (int64_t i = 0; i < layout.inner; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < layout.classes; ++c) {
        const double value = values[(o * layout.classes + c) * layout.inner + i];
        if (!(value >= 0)) return false;
        sum += value;
      }
      if (!(std::abs(sum - 1) <= kSumTolerance)) return false;
    }
  }
  return true;
}

}  // namespace gq::accuracy
