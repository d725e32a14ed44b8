#include "common/job/exec_condition.h"

#include "gtest/gtest.h"

namespace gq::job {
namespace {

constexpr char kMostly[] = R"({"offload":{"gops_percent":91.25,"operators_percent":80}})";
constexpr char kWhole[] = R"({"offload":{"gops_percent":100.0}})";

TEST(ExecCondition, ThreeForms) {
  for (const char* good :
       {"", "always", "full-offload", "offload>=98%", "offload>=98", "offload>=0.5%"}) {
    EXPECT_TRUE(CheckExecCondition(good).ok()) << good;
  }
  for (const char* bad : {"never", "offload", "offload>=", "offload>=x%", "offload>=101%",
                          "offload>=-1", "offload>98%", "offload>=98%%"}) {
    EXPECT_FALSE(CheckExecCondition(bad).ok()) << bad;
  }
}

TEST(ExecCondition, TheReportDecides) {
  EXPECT_EQ(WhyNotExecuted("always", kMostly), "");
  EXPECT_EQ(WhyNotExecuted("", ""), "");
  EXPECT_EQ(WhyNotExecuted("full-offload", kWhole), "");
  EXPECT_EQ(WhyNotExecuted("full-offload", kMostly), "offload 91.25 % is below 100 %");
  EXPECT_EQ(WhyNotExecuted("offload>=98%", kMostly), "offload 91.25 % is below 98 %");
  EXPECT_EQ(WhyNotExecuted("offload>=90%", kMostly), "");
  EXPECT_EQ(WhyNotExecuted("full-offload",
                           R"({"partitions":{"npu":2},"offload":{"gops_percent":100.0}})"),
            "the NPU runs 2 partitions, full-offload asks for one");
}

TEST(ExecCondition, MissingFigureDoesNotMeetACondition) {
  for (const char* report : {"", "{", "[]", "{}", R"({"offload":1})", R"({"offload":{}})",
                             R"({"offload":{"gops_percent":"100"}})"}) {
    EXPECT_NE(WhyNotExecuted("offload>=90%", report), "") << report;
  }
}

}  // namespace
}  // namespace gq::job
