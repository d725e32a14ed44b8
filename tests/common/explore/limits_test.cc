#include "common/explore/limits.h"

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::explore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LimitsTest, ReadsEveryKey) {
  const auto limits = ParseLimits({"precision=FP16", "pass_rate=99.5", "min_gain_db=0.25",
                                   "patience=4", "max_share=0.2", "max_iterations=7",
                                   "time_budget=10m", "keep=a,b", "keep=c", "forbid=^head/.*"});
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->precision, onnx::TensorProto::FLOAT16);
  EXPECT_EQ(limits->pass_rate, 99.5);
  EXPECT_EQ(limits->min_gain_db, 0.25);
  EXPECT_EQ(limits->patience, 4);
  EXPECT_EQ(limits->max_share, 0.2);
  EXPECT_EQ(limits->max_iterations, 7);
  EXPECT_EQ(limits->time_budget, 600);
  EXPECT_THAT(limits->keep, ElementsAre("a", "b", "c"));
  EXPECT_THAT(limits->forbid, ElementsAre("^head/.*"));
  EXPECT_EQ(ParseLimits({"time_budget=2h"})->time_budget, 7200);
  EXPECT_EQ(ParseLimits({"time_budget=90"})->time_budget, 90);
}

TEST(LimitsTest, RefusesWhatItCannotRead) {
  for (const char* text : {"max_share", "max_share=2", "max_share=x", "patience=0", "patience=1.5",
                           "time_budget=-1", "time_budget=10d", "precision=INT4", "speed=1"}) {
    const auto limits = ParseLimits({text});
    ASSERT_FALSE(limits.ok()) << text;
    EXPECT_EQ(base::GetReason(limits.status()), base::Reason::kInvalidFlag);
    EXPECT_THAT(std::string(limits.status().message()), HasSubstr(text));
  }
  EXPECT_THAT(std::string(ParseLimits({"speed=1"}).status().message()), HasSubstr("max_share"));
}

}  // namespace
}  // namespace gq::explore
