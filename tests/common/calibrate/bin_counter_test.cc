#include "common/calibrate/bin_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace gq::calibrate {
namespace {

std::vector<double> Even(double low, double high, int64_t bins) {
  std::vector<double> edges;
  for (int64_t i = 0; i <= bins; ++i) {
    edges.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(bins));
  }
  return edges;
}

// Counts by comparing with every edge.
std::vector<uint64_t> CountByComparison(const std::vector<float>& values, bool magnitude,
                                        const std::vector<double>& edges) {
  std::vector<uint64_t> counts(edges.size() - 1, 0);
  for (const float value : values) {
    const double x = magnitude ? std::fabs(value) : value;
    if (x < edges.front() || x > edges.back()) continue;
    const auto above = std::upper_bound(edges.begin(), edges.end(), x) - edges.begin();
    ++counts[std::min(static_cast<size_t>(above) - 1, counts.size() - 1)];
  }
  return counts;
}

void ExpectEqualCounts(const std::vector<float>& values, bool magnitude,
                       const std::vector<double>& edges) {
  const BinEdges bins(edges);
  const auto expected = CountByComparison(values, magnitude, edges);
  std::vector<uint64_t> counts(expected.size(), 0);
  CountSmall(values, magnitude, bins, counts);
  EXPECT_EQ(counts, expected);
  std::vector<uint64_t> large(expected.size(), 0);
  BinScratch scratch;
  scratch.Reset(bins.bins());
  CountLarge(values, magnitude, bins, scratch);
  scratch.AddTo(large);
  EXPECT_EQ(large, expected);
}

std::vector<float> NormalValues(size_t count, float centre, float spread) {
  std::mt19937 generator(count);
  std::normal_distribution<float> normal(centre, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

TEST(BinCounterTest, AgreesWithComparisons) {
  for (const size_t count : {0, 1, 7, 8, 9, 1000, 30001}) {
    const std::vector<float> values = NormalValues(count, 0.3f, 1);
    ExpectEqualCounts(values, false, Even(-6, 6, 2048));
    ExpectEqualCounts(values, true, Even(0, 6, 2048));
    ExpectEqualCounts(values, false, Even(-0.5, 1, 128));  // many values lie outside
  }
}

TEST(BinCounterTest, ValuesOnEdgesAndTheirNeighbours) {
  for (const int64_t bins : {1, 3, 128, 2048}) {
    const std::vector<double> edges = Even(-1.7, 2.9, bins);
    std::vector<float> values;
    for (const double edge : edges) {
      const auto value = static_cast<float>(edge);
      values.insert(values.end(),
                    {value, std::nextafter(value, 10.0f), std::nextafter(value, -10.0f)});
    }
    ExpectEqualCounts(values, false, edges);
  }
}

TEST(BinCounterTest, ManyZeros) {
  std::vector<float> values = NormalValues(20000, 0, 1);
  for (float& value : values) value = std::max(value, 0.0f);
  values[5] = -0.0f;
  ExpectEqualCounts(values, false, Even(0, 6, 2048));
  ExpectEqualCounts(values, false, Even(-6, 6, 2048));
  ExpectEqualCounts(values, false, Even(1, 6, 2048));  // zero lies outside
}

TEST(BinCounterTest, BinsNarrowerThanFloatSteps) {
  const std::vector<float> values = NormalValues(5000, 1000, 1e-3f);
  const BinEdges edges(Even(999.99, 1000.01, 2048));
  EXPECT_FALSE(edges.fast());
  ExpectEqualCounts(values, false, edges.edges());
}

TEST(BinCounterTest, HugeRange) {
  const std::vector<float> values = {-3e38f, 3e38f, 0, 1, -1e38f};
  ExpectEqualCounts(values, false, Even(-3.1e38, 3.1e38, 2048));
}

}  // namespace
}  // namespace gq::calibrate
