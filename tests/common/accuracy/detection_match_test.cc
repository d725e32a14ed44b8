#include "common/accuracy/detection_match.h"

#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace gq::accuracy {
namespace {

TEST(DetectionLayoutTest, RecognisesRowsAndColumns) {
  const std::vector<OutputShape> rows = {{"output0", {1, 300, 6}}};
  ASSERT_TRUE(FindDetectionLayout(rows));
  EXPECT_EQ(FindDetectionLayout(rows)->form, DetectionLayout::Form::kRows);

  const std::vector<OutputShape> columns = {{"detection_boxes", {1, 10, 4}},
                                            {"detection_classes", {1, 10}},
                                            {"detection_scores", {1, 10}},
                                            {"num_detections", {1}}};
  const auto layout = FindDetectionLayout(columns);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->boxes, 0);
  EXPECT_EQ(layout->classes, 1);
  EXPECT_EQ(layout->scores, 2);
}

TEST(DetectionLayoutTest, LeavesRawHeadsToExternalValidation) {
  EXPECT_FALSE(FindDetectionLayout(std::vector<OutputShape>{{"out", {1, 84, 8400}}}));
  EXPECT_FALSE(FindDetectionLayout(std::vector<OutputShape>{
      {"boxes", {1, 100, 4}}, {"scores", {1, 100, 80}}, {"labels", {1, 100, 80}}}));
  EXPECT_FALSE(FindDetectionLayout(
      std::vector<OutputShape>{{"a", {1, 512, 16}}, {"b", {1, 512, 1}}, {"c", {1, 384, 16}}}));
}

TEST(DetectionMatchTest, IntersectionOverUnion) {
  const Detection a{0, 0, 2, 2}, b{1, 0, 3, 2};
  EXPECT_NEAR(IntersectionOverUnion(a, b), 2.0 / 6, 1e-12);
  EXPECT_EQ(IntersectionOverUnion(a, {5, 5, 6, 6}), 0);
  EXPECT_EQ(IntersectionOverUnion({}, {}), 0);
}

TEST(DetectionMatchTest, MatchesBoxesOfEqualClass) {
  DetectionMatcher matcher;
  matcher.AddSample({{0, 0, 10, 10, 0.9, 1}, {20, 20, 30, 30, 0.8, 2}},
                    {{1, 0, 10, 10, 0.7, 1}, {20, 20, 30, 30, 0.8, 3}});
  const DetectionFigures f = matcher.Figures();
  EXPECT_EQ(f.matched, 1);
  EXPECT_EQ(f.recall, 50);
  EXPECT_EQ(f.precision, 50);
  EXPECT_NEAR(f.mean_iou, 0.9, 1e-12);
}

TEST(DetectionMatchTest, ABoxIsUsedOnce) {
  DetectionMatcher matcher;
  matcher.AddSample({{0, 0, 10, 10, 0.9, 1}, {0, 0, 10, 10, 0.8, 1}}, {{0, 0, 10, 10, 0.7, 1}});
  EXPECT_EQ(matcher.Figures().matched, 1);
}

TEST(DetectionMatchTest, ReadsRowsAndLeavesOutWeakBoxes) {
  DetectionLayout layout;
  layout.form = DetectionLayout::Form::kRows;
  layout.rows = 0;
  const std::vector<float> values = {0, 0, 1, 1, 0.9f, 3, 5, 5, 4, 4, 0.1f, 2};
  const std::vector<std::span<const float>> outputs = {values};
  const auto found = ReadDetections(layout, outputs, 0.25);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].label, 3);
  const std::vector<float> odd = {0, 0, 1, 1, 0.9f, 0.37f};
  EXPECT_FALSE(ReadDetections(layout, std::vector<std::span<const float>>{odd}, 0.25));
}

}  // namespace
}  // namespace gq::accuracy
