#include "common/calibrate/method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"

namespace gq::calibrate {
namespace {

TEST(MethodTest, EveryNameIsUnderstood) {
  for (const Method method : {Method::kMinMax, Method::kMovingAverage, Method::kNonOverflow,
                              Method::kMinMse, Method::kPercentile, Method::kEntropy,
                              Method::kDistribution, Method::kLayerwisePercentile}) {
    const auto parsed = ParseMethod(MethodName(method));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, MethodSpec::Default(method));
  }
}

TEST(MethodTest, PercentileWithNumber) {
  const auto parsed = ParseMethod("percentile:99.9");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->percentile, 99.9);
  for (const std::string text : {"percentile:", "percentile:0", "percentile:100.1",
                                 "percentile:99x", "minmax:3", "average", ""}) {
    EXPECT_EQ(base::GetReason(ParseMethod(text).status()), base::Reason::kInvalidFlag) << text;
  }
}

}  // namespace
}  // namespace gq::calibrate
