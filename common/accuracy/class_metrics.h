// Figures over class scores: which class wins, and how far the two distributions are apart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gq::accuracy {

// How the classes lie in an output: element (o, c, i) is at (o * classes + c) * inner + i. A row is
// one choice among the classes: an image of a batch, a pixel, a time step.
struct ClassLayout {
  int64_t outer = 1;
  int64_t classes = 0;
  int64_t inner = 1;

  int64_t rows() const { return outer * inner; }
};

// Where the classes of an output of static `shape` are by its rank: [C], [N,C], [N,C,1,1] and
// [N,1,1,C] are class scores of a sample, [N,T,C] of a step, and [N,C,H,W] of a pixel. Nothing when
// that leaves fewer than two classes. `axis` (may be negative) overrides the rule.
std::optional<ClassLayout> ClassLayoutOf(std::span<const int64_t> shape,
                                         std::optional<int> axis = std::nullopt);

// True for the shape of a mask, one score a pixel: [N,1,H,W] or [N,H,W,1] with more than one pixel.
bool IsMaskShape(std::span<const int64_t> shape);

// A mask as scores of two classes, background and object, pixel after pixel. Values within 0 to 1
// are shares of the object; with `logits` they go through a sigmoid first.
std::vector<float> MaskScores(std::span<const float> values, bool logits);

struct ClassFigures {
  int64_t rows = 0;
  double agreement = 100;  // percent of rows in which both models choose the same class
  double top5_agreement =
      100;        // percent in which the reference's class is in the candidate's top 5
  double kl = 0;  // mean over rows of KL(r || a) of the two distributions, nats
  // With labels, in percent of the labelled rows.
  int64_t labelled = 0;
  double top1 = 0, top5 = 0;
  double reference_top1 = 0, reference_top5 = 0;
};

// A row whose values are not negative and add up to 1 within 1e-3 is taken as a distribution, any
// other goes through a softmax first. The first of equal largest values wins; NaN never does.
// Accumulates in float64. Not thread-safe.
class ClassMetrics {
 public:
  explicit ClassMetrics(const ClassLayout& layout) : layout_(layout) {}

  // One sample. `labels` is empty or has one class a row; a negative label means "not known".
  void AddSample(std::span<const float> reference, std::span<const float> candidate,
                 std::span<const int64_t> labels = {});

  ClassFigures Figures() const;
  const ClassLayout& layout() const { return layout_; }

 private:
  struct Row {
    std::vector<double> scores;
    std::vector<double> distribution;
    int64_t best = 0;

    void Load(std::span<const float> values, int64_t begin, const ClassLayout& layout);
    bool InTop5(int64_t label) const;
  };

  ClassLayout layout_;
  Row r_, a_;
  int64_t rows_ = 0, equal_ = 0, in_top5_ = 0;
  double kl_ = 0;
  int64_t labelled_ = 0, top1_ = 0, top5_ = 0, reference_top1_ = 0, reference_top5_ = 0;
};

// True when every row of `values` is a distribution in the sense of ClassMetrics.
bool IsDistribution(std::span<const float> values, const ClassLayout& layout);

}  // namespace gq::accuracy
