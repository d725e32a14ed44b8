#include "common/calibrate/value_extent.h"

#include <gtest/gtest.h>

#include <vector>

namespace gq::calibrate {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ValueExtentTest, FindsBothEndsAtEveryPlace) {
  for (const size_t count : {1, 7, 8, 15, 16, 17, 64, 100}) {
    for (size_t at = 0; at < count; ++at) {
      std::vector<float> values(count, 1);
      values[at] = -5;
      const Extent extent = ScanExtent(values);
      EXPECT_EQ(extent.min, -5) << count << " " << at;
      EXPECT_EQ(extent.max, count == 1 ? -5 : 1);
      EXPECT_TRUE(extent.finite());
    }
  }
}

TEST(ValueExtentTest, NoticesWhatIsNotFiniteAtEveryPlace) {
  for (const size_t count : {1, 8, 16, 33}) {
    for (size_t at = 0; at < count; ++at) {
      std::vector<float> values(count, 2);
      values[at] = kNan;
      EXPECT_TRUE(ScanExtent(values).has_nan) << count << " " << at;
      for (const float infinity : {kInfinity, -kInfinity}) {
        values[at] = infinity;
        const Extent extent = ScanExtent(values);
        EXPECT_TRUE(extent.has_infinity) << count << " " << at;
        EXPECT_FALSE(extent.has_nan);
        if (count > 1) {
          EXPECT_EQ(extent.max, 2);  // the others count
          EXPECT_EQ(extent.min, 2);
        }
      }
    }
  }
}

TEST(ValueExtentTest, Empty) {
  EXPECT_TRUE(ScanExtent({}).empty());
  EXPECT_TRUE(ScanExtent(std::vector<float>{kNan}).empty());
  EXPECT_EQ(Extent{}.MaxAbs(), 0);
}

}  // namespace
}  // namespace gq::calibrate
