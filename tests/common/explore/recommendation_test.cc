#include "common/explore/recommendation.h"

#include "common/accuracy/verdict.h"
#include "gtest/gtest.h"

namespace gq::explore {
namespace {

using accuracy::OutputReport;
using accuracy::VerdictResult;

OutputReport Regression(double psnr_db, double pass_rate) {
  OutputReport output;
  output.name = "y";
  output.figures.psnr_db = psnr_db;
  output.figures.pass_rate = pass_rate;
  return output;
}

VerdictResult Judged(graph::TaskType task, const OutputReport& output) {
  return accuracy::JudgeByTask(task, std::span(&output, 1), std::nullopt).result;
}

// Reference ve2-test-vectors.md 13: BF16 46.2 dB / 100 %, VINT8 22.1 / 68.4, a regression.
TEST(RecommendationTest, PublishedRegressionGetsMixedPrecision) {
  const auto bf16 = Judged(graph::TaskType::kRegression, Regression(46.2, 100));
  const auto vint8 = Judged(graph::TaskType::kRegression, Regression(22.1, 68.4));
  EXPECT_EQ(Recommend(bf16, vint8), Choice::kMixed);
}

// The same page: VINT8 at 16.1 dB and 7.1 %, but the same top-1 class: accepted.
TEST(RecommendationTest, PublishedClassificationGetsVint8) {
  OutputReport output = Regression(16.1, 7.1);
  output.classes = accuracy::ClassFigures{.rows = 8, .agreement = 100};
  const auto vint8 = Judged(graph::TaskType::kClassification, output);
  EXPECT_EQ(Recommend(VerdictResult::kGoalMet, vint8), Choice::kInt8);
}

TEST(RecommendationTest, NeitherAndUndecided) {
  EXPECT_EQ(Recommend(VerdictResult::kGoalNotMet, VerdictResult::kGoalNotMet), Choice::kNeither);
  EXPECT_EQ(Recommend(VerdictResult::kNotJudged, VerdictResult::kNotJudged), Choice::kUndecided);
}

// 53 layers: at least 1 + 16 candidates of greedy, at most 1 + 50.
TEST(RecommendationTest, CostFollowsFromWhatWasMeasured) {
  const CostEstimate cost = EstimateCost({.optimize = 1,
                                          .quantize = 2,
                                          .requantize = 0.5,
                                          .recovery = 4,
                                          .evaluate = 1.5,
                                          .inference = 0,
                                          .compute_layers = 53,
                                          .most_promotions = 16,
                                          .most_iterations = 50});
  EXPECT_DOUBLE_EQ(cost.full_run, 8.5);
  EXPECT_DOUBLE_EQ(cost.greedy_least, 34);
  EXPECT_DOUBLE_EQ(cost.greedy_most, 102);
  EXPECT_DOUBLE_EQ(cost.sensitivity, 2.5 + 12);
}

}  // namespace
}  // namespace gq::explore
