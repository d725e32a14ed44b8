#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "board_agent/backends/sim/sim_roofline.h"
#include "board_agent/latency_figures.h"

namespace gq::agent {
namespace {

using testing::HasSubstr;

// numpy.percentile([1, 2, 3, 4, 10], [50, 90, 99]) = 3, 7.6, 9.76; numpy.std(ddof=1) = 3.5355.
TEST(LatencyFiguresTest, AreThoseOfNumpy) {
  const LatencyFigures f = FiguresOf({10, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(f.p50, 3);
  EXPECT_NEAR(f.p90, 7.6, 1e-12);
  EXPECT_NEAR(f.p99, 9.76, 1e-12);
  EXPECT_DOUBLE_EQ(f.mean, 4);
  EXPECT_NEAR(f.stdev, 3.5355339059, 1e-9);
  EXPECT_DOUBLE_EQ(f.min, 1);
  EXPECT_DOUBLE_EQ(f.max, 10);
}

TEST(LatencyFiguresTest, OneValueIsAllOfThem) {
  const LatencyFigures f = FiguresOf({5});
  EXPECT_DOUBLE_EQ(f.p50, 5);
  EXPECT_DOUBLE_EQ(f.p99, 5);
  EXPECT_DOUBLE_EQ(f.stdev, 0);
}

// One subgraph of 2e9 int8 operations, no weights, on 4 columns: 16 cores with 512 multiplications
// a cycle at 1267 MHz and 35 %: 1e9 / (512 * 16 * 1267e6 * 0.35) = 275.3 us, and 25 us for the
// launch.
TEST(RooflineTest, IsWhatItsConditionsSay) {
  SimPartitioning partitioning;
  partitioning.ops = 2000000000;
  partitioning.subgraphs.push_back({{0}, 2000000000, 2000000000, false, false});
  const SimLatency latency =
      EstimateLatency(graph::Model(), partitioning, compile::CompilerOptions());
  EXPECT_NEAR(latency.milliseconds, 0.2753 + 0.025, 1e-4);
  EXPECT_THAT(latency.conditions_json, HasSubstr("\"columns\":4"));
  // 1e7 operations on the CPU at 10e9 a second: one more millisecond, and a hand-over of 5 us.
  partitioning.ops += 10000000;
  partitioning.cpu_partitions = 1;
  EXPECT_NEAR(
      EstimateLatency(graph::Model(), partitioning, compile::CompilerOptions()).milliseconds,
      0.2753 + 0.025 + 1 + 0.005, 1e-4);
}

}  // namespace
}  // namespace gq::agent
