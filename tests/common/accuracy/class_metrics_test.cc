#include "common/accuracy/class_metrics.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace gq::accuracy {
namespace {

using Shape = std::vector<int64_t>;

void ExpectLayout(const Shape& shape, int64_t outer, int64_t classes, int64_t inner,
                  std::optional<int> axis = std::nullopt) {
  const auto layout = ClassLayoutOf(shape, axis);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->outer, outer);
  EXPECT_EQ(layout->classes, classes);
  EXPECT_EQ(layout->inner, inner);
}

TEST(ClassLayoutTest, FollowsTheRank) {
  ExpectLayout({10}, 1, 10, 1);
  ExpectLayout({2, 1000}, 2, 1000, 1);
  ExpectLayout({1, 40, 6625}, 40, 6625, 1);
  ExpectLayout({1, 21, 64, 48}, 1, 21, 64 * 48);
  ExpectLayout({1, 1000, 1, 1}, 1, 1000, 1);
  ExpectLayout({1, 1, 1, 1000}, 1, 1000, 1);
  ExpectLayout({1, 64, 48, 21}, 64 * 48, 21, 1, -1);
}

TEST(ClassLayoutTest, NeedsTwoClassesAndKnownDimensions) {
  EXPECT_FALSE(ClassLayoutOf(Shape{1, 1}));
  EXPECT_FALSE(ClassLayoutOf(Shape{}));
  EXPECT_FALSE(ClassLayoutOf(Shape{-1, 10}));
  EXPECT_FALSE(ClassLayoutOf(Shape{1, 1, 8, 8}));
}

TEST(MaskTest, IsOneScoreAPixel) {
  EXPECT_TRUE(IsMaskShape(Shape{1, 1, 8, 8}));
  EXPECT_TRUE(IsMaskShape(Shape{1, 8, 8, 1}));
  EXPECT_FALSE(IsMaskShape(Shape{1, 21, 8, 8}));
  EXPECT_FALSE(IsMaskShape(Shape{1, 1, 1, 1}));
  EXPECT_FALSE(IsMaskShape(Shape{1, 1, 8, -1}));
  EXPECT_FALSE(IsMaskShape(Shape{1, 64}));
}

TEST(MaskTest, HasAShareOfBackgroundAndOneOfTheObject) {
  EXPECT_EQ(MaskScores(std::vector<float>{0.25F, 1}, false),
            (std::vector<float>{0.75F, 0.25F, 0, 1}));
  EXPECT_EQ(MaskScores(std::vector<float>{0}, true), (std::vector<float>{0.5F, 0.5F}));
}

TEST(ClassMetricsTest, CountsEqualWinners) {
  ClassMetrics metrics({.outer = 1, .classes = 3, .inner = 1});
  metrics.AddSample(std::vector<float>{1, 5, 2}, std::vector<float>{0, 9, 8});
  metrics.AddSample(std::vector<float>{1, 5, 2}, std::vector<float>{9, 5, 2});
  EXPECT_EQ(metrics.Figures().rows, 2);
  EXPECT_EQ(metrics.Figures().agreement, 50);
}

TEST(ClassMetricsTest, TheFirstOfEqualScoresWins) {
  ClassMetrics metrics({.outer = 1, .classes = 3, .inner = 1});
  metrics.AddSample(std::vector<float>{7, 7, 1}, std::vector<float>{3, 1, 3});
  EXPECT_EQ(metrics.Figures().agreement, 100);
}

TEST(ClassMetricsTest, ReadsPixelsAlongTheClassAxis) {
  // Two classes, three pixels, classes first.
  ClassMetrics metrics({.outer = 1, .classes = 2, .inner = 3});
  metrics.AddSample(std::vector<float>{1, 0, 1, 0, 1, 0}, std::vector<float>{1, 0, 0, 0, 1, 1});
  EXPECT_EQ(metrics.Figures().rows, 3);
  EXPECT_NEAR(metrics.Figures().agreement, 200.0 / 3, 1e-12);
}

TEST(ClassMetricsTest, UsesLabelsForTrueAccuracy) {
  ClassMetrics metrics({.outer = 1, .classes = 6, .inner = 1});
  const std::vector<float> r = {6, 5, 4, 3, 2, 1}, a = {5, 6, 4, 3, 2, 1};
  const std::vector<int64_t> first = {0}, last = {5}, unknown = {-1}, second = {1};
  metrics.AddSample(r, a, first);   // reference right, candidate in top 5
  metrics.AddSample(r, a, last);    // both out of the top 5
  metrics.AddSample(r, a, second);  // candidate right
  metrics.AddSample(r, a, second);
  metrics.AddSample(r, a, unknown);
  const ClassFigures f = metrics.Figures();
  EXPECT_EQ(f.rows, 5);
  EXPECT_EQ(f.labelled, 4);
  EXPECT_EQ(f.reference_top1, 25);
  EXPECT_EQ(f.top1, 50);
  EXPECT_EQ(f.reference_top5, 75);
  EXPECT_EQ(f.top5, 75);
}

TEST(ClassMetricsTest, KlOfLogitsGoesThroughASoftmax) {
  ClassMetrics metrics({.outer = 1, .classes = 2, .inner = 1});
  const auto ln3 = static_cast<float>(std::log(3.0));
  metrics.AddSample(std::vector<float>{0, 0}, std::vector<float>{0, ln3});  // 1/2 1/2; 1/4 3/4
  EXPECT_NEAR(metrics.Figures().kl, 0.5 * std::log(2.0) + 0.5 * std::log(0.5 / 0.75), 1e-7);
}

TEST(ClassMetricsTest, KlOfProbabilitiesTakesThemAsTheyAre) {
  ClassMetrics metrics({.outer = 1, .classes = 2, .inner = 1});
  metrics.AddSample(std::vector<float>{0.5f, 0.5f}, std::vector<float>{0.25f, 0.75f});
  EXPECT_NEAR(metrics.Figures().kl, 0.5 * std::log(2.0) + 0.5 * std::log(0.5 / 0.75), 1e-7);
}

TEST(ClassMetricsTest, NanNeverAgrees) {
  ClassMetrics metrics({.outer = 1, .classes = 2, .inner = 1});
  const float nan = std::nanf("");
  metrics.AddSample(std::vector<float>{1, 0}, std::vector<float>{nan, nan});
  metrics.AddSample(std::vector<float>{0, 1}, std::vector<float>{nan, 0});
  EXPECT_EQ(metrics.Figures().agreement, 50);
}

TEST(ClassMetricsTest, RecognisesDistributions) {
  const ClassLayout layout = {.outer = 2, .classes = 2, .inner = 1};
  EXPECT_TRUE(IsDistribution(std::vector<float>{0.5f, 0.5f, 1, 0}, layout));
  EXPECT_FALSE(IsDistribution(std::vector<float>{0.5f, 0.5f, 2, 0}, layout));
  EXPECT_FALSE(IsDistribution(std::vector<float>{0.5f, 0.5f, 2, -1}, layout));
}

}  // namespace
}  // namespace gq::accuracy
