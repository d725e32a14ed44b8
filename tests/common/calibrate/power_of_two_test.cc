#include "common/calibrate/power_of_two.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/calibrate/range_rules.h"

namespace gq::calibrate {
namespace {

// pos(s) = rint(-log2(A / 127)).
TEST(PowerOfTwoTest, BasePosition) {
  EXPECT_EQ(BaseOf({-1, 0.5f}, Grid::kInt8).position, 7);  // log2(127) = 6.99
  EXPECT_EQ(BaseOf({0, 127}, Grid::kInt8).position, 0);
  EXPECT_EQ(BaseOf({2, 254}, Grid::kInt8).position, -1);
  EXPECT_EQ(BaseOf({0, 180}, Grid::kInt8).position, -1);  // log2(180 / 127) = 0.503
  EXPECT_EQ(BaseOf({0, 179}, Grid::kInt8).position, 0);   // 0.495
  EXPECT_EQ(BaseOf({-1, 1}, Grid::kUint8).position, 7);   // 2 / 255
  EXPECT_EQ(BaseOf({-1, 1}, Grid::kUint8).zero_point, 128);
  EXPECT_EQ(BaseOf({0, 1}, Grid::kInt16).position, 15);
}

TEST(PowerOfTwoTest, ZerosGiveTheLargestCandidate) {
  const PowerOfTwoBase base = BaseOf({0, 0}, Grid::kInt8);
  const std::vector<float> zeros(10, 0);
  runtime::SerialLoop loop;
  EXPECT_EQ(BestCandidate(SquaredErrors(zeros, base, Grid::kInt8, loop)), 0);
  EXPECT_EQ(GridRange(base, 0, Grid::kInt8), (Range{-254, 254}));  // scale 2
  // Quark's unsigned grid has zero point 0 there, so its later symmetric scale is 4.
  const PowerOfTwoBase unsigned_base = BaseOf({0, 0}, Grid::kUint8);
  EXPECT_EQ(GridRange(unsigned_base, 0, Grid::kUint8), (Range{0, 510}));
}

TEST(PowerOfTwoTest, ErrorsAgreeWithTheDefinition) {
  std::vector<float> values;
  for (int i = 0; i < 1003; ++i) values.push_back(std::sin(static_cast<float>(i)) * 3.3f);
  const PowerOfTwoBase base = BaseOf({-3.3f, 3.3f}, Grid::kInt8);
  runtime::SerialLoop loop;
  const auto errors = SquaredErrors(values, base, Grid::kInt8, loop);
  for (int i = 0; i < kCandidates; ++i) {
    const double scale = std::ldexp(1.0, -(base.position - 1 + i));
    double sum = 0;
    for (const float value : values) {
      const double integer = std::fmin(127, std::fmax(-127, std::nearbyint(value / scale)));
      sum += (integer * scale - value) * (integer * scale - value);
    }
    EXPECT_NEAR(errors[static_cast<size_t>(i)], sum, 1e-5 * sum);
  }
}

Histogram Filled(HistogramKind kind, int64_t bins, const std::vector<float>& values) {
  Histogram histogram({kind, bins}, 1 << 20);
  runtime::SerialLoop loop;
  std::vector<BinScratch> scratch(1);
  histogram.Add(values, ScanExtent(values), loop, scratch);
  return histogram;
}

TEST(RangeRulesTest, PercentileCutsWhereTheShareIsReached) {
  // |x| of 0 .. 10 in ten bins of one: the first eight bins hold 0 .. 7.
  std::vector<float> values;
  for (int i = 0; i < 10; ++i) values.push_back(static_cast<float>(i % 2 == 0 ? i : -i));
  values.push_back(10);
  const Histogram histogram = Filled(HistogramKind::kMagnitude, 10, values);
  const Range seen{-9, 10};
  // Shares of 1/11 a bin (the last has two): 0.7 is reached in the bin that begins at 7.
  EXPECT_EQ(PercentileRange(histogram, 70, seen), (Range{-7, 7}));
  // The edge is no wider than what was seen.
  EXPECT_EQ(PercentileRange(histogram, 70, {-2, 10}), (Range{-2, 7}));
}

TEST(RangeRulesTest, AsymmetricPercentileCutsBothEnds) {
  const Histogram histogram =
      Filled(HistogramKind::kSymmetric, 4, {-2, -1, -1, -1, 1.5f, 1.5f, 2, 2, 2, 2});
  // Bins [-2,-1) 1, [-1,0) 3, [0,1) 0, [1,2] 6; 20 % at each end.
  EXPECT_EQ(PercentileRange(histogram, 60, {-2, 2}), (Range{-1, 1}));
}

TEST(RangeRulesTest, DistributionKeepsTheEnds) {
  EXPECT_EQ(DistributionRange(Filled(HistogramKind::kSymmetric, 8, {-1, 3})), (Range{-3, 3}));
}

}  // namespace
}  // namespace gq::calibrate
