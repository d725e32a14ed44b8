#include "common/explore/stopping_rule.h"

#include "gtest/gtest.h"

namespace gq::explore {
namespace {

// Reference ve2-test-vectors.md 10: the gains are 6.5, 6.7, 0.2, 0.3, 0.2 dB.
TEST(StoppingRuleTest, StopsAfterThreeSmallGainsAsPublished) {
  StoppingRule rule({}, 53, {.pass_rate = 50, .psnr_db = 18.2});
  for (const double psnr : {24.7, 31.4, 31.6, 31.9}) {
    EXPECT_EQ(rule.Try({.pass_rate = 50, .psnr_db = psnr}), Decision::kPromoted);
    EXPECT_FALSE(rule.stop()) << psnr;
  }
  EXPECT_EQ(rule.Try({.pass_rate = 50, .psnr_db = 32.1}), Decision::kPromoted);
  EXPECT_EQ(rule.stop(), StopReason::kSmallGains);
}

// The same page: half a decibel exactly is not less than half a decibel.
TEST(StoppingRuleTest, HalfADecibelIsNotSmall) {
  StoppingRule rule({}, 53, {.pass_rate = 50, .psnr_db = 20});
  for (int i = 1; i <= 5; ++i) rule.Try({.pass_rate = 50, .psnr_db = 20 + 0.5 * i});
  EXPECT_FALSE(rule.stop());
}

// Reference ve2-test-vectors.md 13: stops at the fifth.
TEST(StoppingRuleTest, StopsAtThePassRateAsPublished) {
  StoppingRule rule({}, 53, {.pass_rate = 72.1, .psnr_db = 18.2});
  EXPECT_EQ(rule.Try({.pass_rate = 88.3, .psnr_db = 24.7}), Decision::kPromoted);
  EXPECT_EQ(rule.Try({.pass_rate = 97.5, .psnr_db = 31.4}), Decision::kPromoted);
  EXPECT_EQ(rule.Try({.pass_rate = 99.8, .psnr_db = 34.8}), Decision::kPromoted);
  EXPECT_FALSE(rule.stop());
  EXPECT_EQ(rule.Try({.pass_rate = 99.95, .psnr_db = 36.2}), Decision::kPromoted);
  EXPECT_EQ(rule.stop(), StopReason::kPassRate);
}

TEST(StoppingRuleTest, SkippedAndRolledBackTriesNeitherCountNorResetTheGains) {
  StoppingRule rule({}, 50, {.pass_rate = 50, .psnr_db = 20});
  EXPECT_EQ(rule.Try({.pass_rate = 50, .psnr_db = 20.1}), Decision::kPromoted);
  EXPECT_EQ(rule.Try({.pass_rate = 50, .psnr_db = 20.1}), Decision::kSkipped);
  EXPECT_EQ(rule.Try({.pass_rate = 50, .psnr_db = 20.2}), Decision::kPromoted);
  EXPECT_EQ(rule.Try({.pass_rate = 49, .psnr_db = 30}), Decision::kRolledBack);
  EXPECT_FALSE(rule.stop());
  EXPECT_EQ(rule.Try({.pass_rate = 50, .psnr_db = 20.3}), Decision::kPromoted);
  EXPECT_EQ(rule.stop(), StopReason::kSmallGains);
  EXPECT_EQ(rule.promoted(), 3);
  EXPECT_EQ(rule.tries(), 5);
}

TEST(StoppingRuleTest, AHigherPassRateIsBetterWhateverThePsnr) {
  StoppingRule rule({}, 50, {.pass_rate = 50, .psnr_db = 20});
  EXPECT_EQ(rule.Try({.pass_rate = 51, .psnr_db = 19}), Decision::kPromoted);
  EXPECT_EQ(rule.best().psnr_db, 19);
}

// The promotion that reaches 30 % is the last: 6 of 20, 15 of 50, 16 of 53.
TEST(StoppingRuleTest, TheShareOfThirtyPercent) {
  const Limits limits;
  EXPECT_EQ(limits.MostPromotions(20), 6);
  EXPECT_EQ(limits.MostPromotions(50), 15);
  EXPECT_EQ(limits.MostPromotions(53), 16);
  StoppingRule rule(limits, 20, {.pass_rate = 0, .psnr_db = 0});
  for (int i = 1; i <= 5; ++i) rule.Try({.pass_rate = 1.0 * i, .psnr_db = 1.0 * i});
  EXPECT_FALSE(rule.stop());
  rule.Try({.pass_rate = 6, .psnr_db = 6});
  EXPECT_EQ(rule.stop(), StopReason::kShare);
}

// 53 layers give 50 tries, 20 layers 20.
TEST(StoppingRuleTest, TheNumberOfTries) {
  EXPECT_EQ(Limits{}.MostIterations(53), 50);
  EXPECT_EQ(Limits{}.MostIterations(20), 20);
  StoppingRule rule({}, 53, {.pass_rate = 50, .psnr_db = 20});
  for (int i = 0; i < 49; ++i) rule.Try({.pass_rate = 40, .psnr_db = 20});
  EXPECT_FALSE(rule.stop());
  rule.Try({.pass_rate = 40, .psnr_db = 20});
  EXPECT_EQ(rule.stop(), StopReason::kIterations);
}

TEST(StoppingRuleTest, AStartThatMeetsTheGoalNeedsNoSearch) {
  EXPECT_EQ(StoppingRule({}, 20, {.pass_rate = 10, .psnr_db = 5}, true).stop(),
            StopReason::kGoalMet);
  EXPECT_EQ(StoppingRule({}, 20, {.pass_rate = 99.9, .psnr_db = 5}).stop(), StopReason::kPassRate);
}

}  // namespace
}  // namespace gq::explore
