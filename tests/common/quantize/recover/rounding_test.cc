#include "common/quantize/recover/rounding.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace gq::quantize {
namespace {

// Inputs that depend on each other, as neighbouring channels do, and outputs of known weights.
struct Problem {
  RowMatrix weights;
  Moments moments;
};

Problem MakeProblem(int outputs, int inputs, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Problem problem{RowMatrix(outputs, inputs), Moments(inputs, outputs)};
  for (auto& weight : problem.weights.reshaped()) weight = normal(random);
  FloatRows features(500, inputs);
  for (Eigen::Index row = 0; row < features.rows(); ++row) {
    const float common = normal(random);
    for (Eigen::Index k = 0; k < inputs; ++k) features(row, k) = common + normal(random) / 2 + 1;
  }
  const FloatRows targets = features * problem.weights.cast<float>().transpose();
  problem.moments.Add(features, targets);
  return problem;
}

Quadratic ErrorOf(const Problem& problem) {
  return OutputError(problem.moments, problem.weights,
                     Eigen::VectorXd::Zero(problem.weights.rows()), {.ridge = 0.001});
}

TEST(RoundingTest, NearestIntegersAreHeldWithinTheLimit) {
  RowMatrix weights(1, 4);
  weights << 0.26, -0.26, 100, -100;
  RowMatrix expected(1, 4);
  expected << 1, -1, 127, -127;
  EXPECT_EQ(RoundNearest(weights, 0.5, 127), expected);
}

TEST(RoundingTest, CompensationLeavesLessErrorThanNearest) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const Problem problem = MakeProblem(6, 24, seed);
    const Quadratic error = ErrorOf(problem);
    const double nearest = error.Value(0.25 * RoundNearest(problem.weights, 0.25, 127));
    const double compensated = error.Value(0.25 * ColumnRounder(error).Round(0.25, 127));
    const double exact = error.Value(problem.weights);
    EXPECT_LT(compensated - exact, (nearest - exact) / 2) << "seed " << seed;
  }
}

TEST(RoundingTest, ExactGridWeightsAreFoundAgain) {
  Problem problem = MakeProblem(3, 70, 7);  // more columns than one block
  problem.weights = 0.125 * RoundNearest(problem.weights, 0.125, 127);
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  FloatRows features(600, 70);
  for (auto& value : features.reshaped()) value = normal(random);
  problem.moments = Moments(70, 3);
  problem.moments.Add(features, features * problem.weights.cast<float>().transpose());
  const RowMatrix found = ColumnRounder(ErrorOf(problem)).Round(0.125, 127);
  EXPECT_EQ((0.125 * found - problem.weights).cwiseAbs().maxCoeff(), 0);
}

// Against the best of all 7^3 assignments.
TEST(RoundingTest, PairMovesFindTheOptimumOfASmallProblem) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Problem problem = MakeProblem(1, 3, seed);
    const Quadratic error = ErrorOf(problem);
    RowMatrix found = RoundNearest(problem.weights, 0.5, 3);
    DescendCoordinates(error, 0.5, 3, 20, true, &found);
    double best = std::numeric_limits<double>::infinity();
    for (int a = -3; a <= 3; ++a) {
      for (int b = -3; b <= 3; ++b) {
        for (int c = -3; c <= 3; ++c) {
          RowMatrix candidate(1, 3);
          candidate << 0.5 * a, 0.5 * b, 0.5 * c;
          best = std::min(best, error.Value(candidate));
        }
      }
    }
    const double nearest = error.Value(0.5 * RoundNearest(problem.weights, 0.5, 3));
    EXPECT_LE(error.Value(0.5 * found), best + 0.1 * (nearest - best) + 1e-9) << "seed " << seed;
  }
}

TEST(RoundingTest, DescentNeverRaisesTheError) {
  const Problem problem = MakeProblem(8, 40, 3);
  const Quadratic error = ErrorOf(problem);
  RowMatrix integers = RoundNearest(problem.weights, 0.5, 127);
  double before = error.Value(0.5 * integers);
  for (int sweep = 0; sweep < 4; ++sweep) {
    DescendCoordinates(error, 0.5, 127, 1, false, &integers);
    const double after = error.Value(0.5 * integers);
    EXPECT_LE(after, before + 1e-9);
    before = after;
  }
}

// f(W) of the moments equals the mean squared output error by definition, up to sum y^2.
TEST(RoundingTest, OutputErrorIsTheMeanSquaredError) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  FloatRows features(50, 3), targets(50, 2);
  for (auto& value : features.reshaped()) value = normal(random);
  for (auto& value : targets.reshaped()) value = normal(random);
  Moments moments(3, 2);
  moments.Add(features, targets);
  RowMatrix weights(2, 3);
  weights << 0.5, -1, 2, 1, 0.25, -0.75;
  Eigen::VectorXd bias(2);
  bias << 0.5, -0.25;
  const Quadratic error = OutputError(moments, weights, bias, {.ridge = 0, .centered = false});
  double expected = 0, constant = 0;
  for (int row = 0; row < 50; ++row) {
    for (int m = 0; m < 2; ++m) {
      double output = bias[m];
      for (int k = 0; k < 3; ++k) output += weights(m, k) * features(row, k);
      expected += std::pow(output - targets(row, m), 2) / 50;
      constant += std::pow(bias[m] - targets(row, m), 2) / 50;
    }
  }
  EXPECT_NEAR(error.Value(weights) + constant, expected, 1e-5);
}

}  // namespace
}  // namespace gq::quantize
