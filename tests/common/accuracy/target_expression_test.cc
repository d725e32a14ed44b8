#include "common/accuracy/target_expression.h"

#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace gq::accuracy {
namespace {

TargetExpression Parse(const char* text) {
  auto target = ParseTarget(text);
  EXPECT_TRUE(target.ok()) << text << ": " << target.status();
  return target.ok() ? *target : TargetExpression();
}

TEST(TargetExpressionTest, ReadsEveryMetricAndComparison) {
  EXPECT_EQ(Parse("psnr>30").metric, Metric::kPsnr);
  EXPECT_EQ(Parse("passrate>=99.9%").metric, Metric::kPassRate);
  EXPECT_EQ(Parse("cosine>=0.98").metric, Metric::kCosine);
  EXPECT_EQ(Parse("mse<1e-3").metric, Metric::kMse);
  EXPECT_EQ(Parse("mae<=0.5").metric, Metric::kMae);
  EXPECT_EQ(Parse("max_abs<2").metric, Metric::kMaxAbs);
  EXPECT_EQ(Parse("top1>=75").metric, Metric::kTop1);
  EXPECT_EQ(Parse("top5>=90%").metric, Metric::kTop5);
  EXPECT_EQ(Parse("snr>=20").metric, Metric::kSnr);
  EXPECT_EQ(Parse("psnr>30").comparison, Comparison::kGreater);
  EXPECT_EQ(Parse("psnr>=30").comparison, Comparison::kGreaterEqual);
  EXPECT_EQ(Parse("mse<1e-3").comparison, Comparison::kLess);
  EXPECT_EQ(Parse("mse<=1e-3").comparison, Comparison::kLessEqual);
  EXPECT_EQ(Parse("mse<1e-3").bound, 1e-3);
  EXPECT_EQ(Parse("passrate>=99.9%").bound, 99.9);
}

TEST(TargetExpressionTest, BlanksAndUpperCaseDoNotMatter) {
  const TargetExpression target = Parse("  PSNR >= 30.5 ");
  EXPECT_EQ(target.metric, Metric::kPsnr);
  EXPECT_EQ(target.bound, 30.5);
  EXPECT_EQ(target.text, "PSNR >= 30.5");
}

TEST(TargetExpressionTest, ComparesWithTheBaselineInPercentagePoints) {
  const TargetExpression target = Parse("top1>=fp32-1%");
  EXPECT_TRUE(target.relative_to_fp32);
  EXPECT_TRUE(target.Holds(74, 75));
  EXPECT_FALSE(target.Holds(73.9, 75));
  EXPECT_TRUE(Parse("top5>=fp32").Holds(75, 75));
}

TEST(TargetExpressionTest, NanNeverHoldsAndInfinityDoes) {
  EXPECT_FALSE(Parse("psnr>=30").Holds(std::nan("")));
  EXPECT_FALSE(Parse("mse<1").Holds(std::nan("")));
  EXPECT_TRUE(Parse("psnr>=30").Holds(std::numeric_limits<double>::infinity()));
}

TEST(TargetExpressionTest, RefusesWhatItCannotRead) {
  for (const char* text : {"",
                           "psnr",
                           "psnr30",
                           ">=30",
                           "psnr>=",
                           "psnr=>30",
                           "psnr==30",
                           "psnr!=30",
                           "quality>3",
                           "psnr>=30%",
                           "psnr>=abc",
                           "psnr>=30dB",
                           "psnr>=nan",
                           "psnr>=inf",
                           "top1>=bf16-1%",
                           "psnr>=fp32-1%",
                           "top1>=fp32-1",
                           "top1>=fp32+1%",
                           "top1>=fp32-x%",
                           "top1>=101%",
                           "passrate>=-1",
                           "cosine>=2",
                           "psnr>=30>=20"}) {
    const auto target = ParseTarget(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_EQ(base::GetReason(target.status()), base::Reason::kTargetInvalid) << text;
    EXPECT_FALSE(base::GetHint(target.status()).empty());
  }
}

// `top1>=0.75` would hold for every model if it silently meant 0.75 %.
TEST(TargetExpressionTest, RefusesAShareWhereAPercentageIsMeant) {
  EXPECT_FALSE(ParseTarget("top1>=0.75").ok());
  EXPECT_FALSE(ParseTarget("passrate>=1").ok());
  EXPECT_EQ(Parse("top1>=0.75%").bound, 0.75);
  EXPECT_EQ(Parse("top1>=0").bound, 0);
}

}  // namespace
}  // namespace gq::accuracy
