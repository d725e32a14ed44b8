#include "common/report/warning_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::report {
namespace {

using testing::ElementsAre;
using testing::Field;

TEST(WarningGroupsTest, NamesAndNumbersDoNotMakeAKind) {
  EXPECT_EQ(WarningKind("tensor 'a/1' has 12 values"), WarningKind("tensor 'b' has 7 values"));
  EXPECT_NE(WarningKind("tensor 'a' has values"), WarningKind("node 'a' has values"));
  EXPECT_EQ(WarningKind("it's 3"), "it's 0");
}

TEST(WarningGroupsTest, ThreeOfAKindAreToldOnce) {
  const auto groups = GroupWarnings(
      {"'a' is left out", "other", "'b' is left out", "'c' is left out", "'d' is left out"});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].text, "'a' is left out (and 3 more of this kind)");
  EXPECT_EQ(groups[0].count, 4u);
  EXPECT_EQ(groups[1].text, "other");
}

TEST(WarningGroupsTest, TwoOfAKindStayTwo) {
  EXPECT_THAT(GroupWarnings({"'a' is left out", "'b' is left out"}),
              ElementsAre(Field(&WarningGroup::text, "'a' is left out"),
                          Field(&WarningGroup::text, "'b' is left out")));
}

}  // namespace
}  // namespace gq::report
