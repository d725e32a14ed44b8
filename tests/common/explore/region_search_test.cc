#include "common/explore/region_search.h"

#include <cmath>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gq::explore {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Noise powers that add up; what is promoted gives none.
ScoreFunction Additive(const std::vector<double>& noise, int* calls = nullptr) {
  return [noise, calls](const std::vector<bool>& promoted, bool) -> absl::StatusOr<double> {
    if (calls != nullptr) ++*calls;
    double sum = 1e-6;
    for (size_t i = 0; i < noise.size(); ++i) {
      if (!promoted[i]) sum += noise[i];
    }
    return -10 * std::log10(sum);
  };
}

std::vector<size_t> All(size_t count) {
  std::vector<size_t> regions(count);
  std::iota(regions.begin(), regions.end(), 0);
  return regions;
}

TEST(RegionSearchTest, TakesTheLargestNoiseFirst) {
  const std::vector<double> noise = {0.1, 0.5, 0.02, 0.3, 0.05, 0.01, 0.2, 0.001};
  const auto path =
      SearchRegions(All(8), std::vector<bool>(8, false), Additive(noise), {.most = 4});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(path->regions, ElementsAre(1, 3, 6, 0));
  ASSERT_EQ(path->scores.size(), 5u);
  for (size_t i = 1; i < path->scores.size(); ++i) {
    EXPECT_GT(path->scores[i], path->scores[i - 1]);
  }
}

TEST(RegionSearchTest, TheStartCountsTowardsTheLimit) {
  std::vector<bool> start(4, false);
  start[2] = true;
  const auto path = SearchRegions({0, 1, 3}, start, Additive({0.1, 0.2, 0.9, 0.3}), {.most = 2});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(path->regions, ElementsAre(3));
}

// Regions 0 and 1 help only together; the best single ones are others. The most damaging regions
// taken together beat the path that grew one by one.
TEST(RegionSearchTest, FindsRegionsThatHelpOnlyTogether) {
  const ScoreFunction score = [](const std::vector<bool>& promoted,
                                 bool) -> absl::StatusOr<double> {
    double noise = 1e-6;
    if (!promoted[0] || !promoted[1]) noise += 1;
    for (size_t i = 2; i < promoted.size(); ++i) {
      if (!promoted[i]) noise += 0.05;
    }
    return -10 * std::log10(noise);
  };
  const auto path = SearchRegions(All(8), std::vector<bool>(8, false), score, {.most = 2});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(path->regions, UnorderedElementsAre(0, 1));
}

TEST(RegionSearchTest, EndsWhenTimeIsOut) {
  int calls = 0;
  const auto path = SearchRegions(All(50), std::vector<bool>(50, false),
                                  Additive(std::vector<double>(50, 0.1), &calls),
                                  {.most = 15, .out_of_time = [&calls] { return calls > 20; }});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_LT(calls, 30);
}

}  // namespace
}  // namespace gq::explore
