#include "common/calibrate/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace gq::calibrate {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

// Hands pieces to threads of its own.
class ThreadLoop : public runtime::ParallelLoop {
 public:
  explicit ThreadLoop(size_t workers) : workers_(workers) {}
  size_t workers() const override { return workers_; }
  void For(size_t count, const std::function<void(size_t)>& body) override {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  size_t workers_;
};

void Add(Histogram& histogram, const std::vector<float>& values) {
  runtime::SerialLoop loop;
  std::vector<BinScratch> scratch(1);
  histogram.Add(values, ScanExtent(values), loop, scratch);
}

constexpr int64_t kManyBins = 1 << 20;

TEST(HistogramTest, ValueGrowsByWholeBinsOnBothSides) {
  Histogram histogram({HistogramKind::kValue, 4}, kManyBins);
  Add(histogram, {0, 1, 2, 4});
  EXPECT_THAT(histogram.edges(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 1, 1, 1));
  // 1.5 bins to the left and 1.2 to the right, both rounded up.
  Add(histogram, {-1.5f, 5.2f});
  EXPECT_THAT(histogram.edges(), ElementsAre(-2, -1, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 0, 1, 1, 1, 1, 0, 1));
}

TEST(HistogramTest, ConstantSampleGetsARangeOfOne) {
  Histogram histogram({HistogramKind::kValue, 2}, kManyBins);
  Add(histogram, {3, 3});
  EXPECT_THAT(histogram.edges(), ElementsAre(2.5, 3, 3.5));
  EXPECT_THAT(histogram.counts(), ElementsAre(0, 2));
}

TEST(HistogramTest, MagnitudeStartsAtTheSmallestAndGrowsUpwards) {
  Histogram histogram({HistogramKind::kMagnitude, 4}, kManyBins);
  Add(histogram, {-1, 2, 5});
  EXPECT_THAT(histogram.edges(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 1, 0, 1));
  // numpy.arange(6, 7.5, 1) gives two more edges; 0.5 lies below the first.
  Add(histogram, {-6.5f, 0.5f});
  EXPECT_THAT(histogram.edges(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 1, 0, 1, 0, 1));
}

TEST(HistogramTest, SymmetricGrowsAlikeOnBothSides) {
  Histogram histogram({HistogramKind::kSymmetric, 4}, kManyBins);
  Add(histogram, {-1, 1});
  EXPECT_THAT(histogram.edges(), ElementsAre(-1, -0.5, 0, 0.5, 1));
  // Bins of 0.5: (2.1 - 1) / 0.5 = 2.2, so three more at each end.
  Add(histogram, {2.1f});
  ASSERT_EQ(histogram.counts().size(), 10u);
  EXPECT_THAT(histogram.edges().front(), DoubleEq(-2.5));
  EXPECT_THAT(histogram.counts(), ElementsAre(0, 0, 0, 1, 0, 0, 1, 0, 0, 1));
}

TEST(HistogramTest, GrowthIsBounded) {
  for (const HistogramKind kind :
       {HistogramKind::kValue, HistogramKind::kMagnitude, HistogramKind::kSymmetric}) {
    Histogram histogram({kind, 64}, 256);
    Add(histogram, {-1e-6f, 0, 1e-6f, 5e-7f});
    Add(histogram, {1e6f, -3e5f});
    Add(histogram, {-2e30f});
    EXPECT_LE(histogram.counts().size(), 256u);
    EXPECT_EQ(histogram.total(), 7u);
    EXPECT_GE(histogram.edges().back(), 1e6);
  }
}

TEST(HistogramTest, SameForAnyNumberOfThreads) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(300000);
  for (float& value : values) value = normal(generator);
  Histogram one({HistogramKind::kValue, 2048}, kManyBins);
  Add(one, values);
  for (const size_t workers : {2, 3, 8}) {
    Histogram many({HistogramKind::kValue, 2048}, kManyBins);
    ThreadLoop loop(workers);
    std::vector<BinScratch> scratch(workers);
    many.Add(values, ScanExtent(values), loop, scratch);
    EXPECT_EQ(many.counts(), one.counts());
  }
}

}  // namespace
}  // namespace gq::calibrate
