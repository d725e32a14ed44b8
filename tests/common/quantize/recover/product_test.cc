// The sums that recovery rests on, and that they do not depend on threads.
#include "common/quantize/recover/product.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "Eigen/Cholesky"
#include "Eigen/LU"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/quantize/recover/layer_fit.h"
#include "common/quantize/recover/parallel.h"
#include "common/quantize/recover/rounding.h"
#include "gtest/gtest.h"

namespace gq::quantize {
namespace {

using Eigen::Index;

template <typename Matrix>
Matrix Random(Index rows, Index columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<typename Matrix::Scalar> uniform(-1, 1);
  Matrix matrix(rows, columns);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) matrix(i, j) = uniform(random);
  }
  return matrix;
}

// Sizes beside the tiles, beyond one packed part in every direction, and of one element.
TEST(ProductTest, IsTheSumOfProducts) {
  for (const auto& [rows, columns, depth] : std::vector<std::tuple<Index, Index, Index>>{
           {1, 1, 1}, {5, 17, 3}, {4, 16, 256}, {7, 530, 300}, {66, 9, 515}}) {
    const auto a = Random<RowMatrix>(rows, depth, 1), b = Random<RowMatrix>(depth, columns, 2);
    RowMatrix out = Random<RowMatrix>(rows, columns, 3);
    RowMatrix expected = out;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < columns; ++j) {
        double sum = 0;
        for (Index k = 0; k < depth; ++k) sum += a(i, k) * b(k, j);
        expected(i, j) -= 0.5 * sum;
      }
    }
    AddProduct<double>({a.data(), depth, 1}, {b.data(), columns, 1}, rows, columns, depth, -0.5,
                       out.data(), columns);
    EXPECT_LT((out - expected).cwiseAbs().maxCoeff(), 1e-12) << rows << " x " << columns;
  }
}

TEST(ProductTest, StridesTranspose) {
  const auto a = Random<FloatRows>(40, 6, 4), b = Random<FloatRows>(40, 19, 5);
  RowMatrix out = RowMatrix::Zero(6, 19);
  AddProduct<float>({a.data(), 1, 6}, {b.data(), 19, 1}, 6, 19, 40, 1, out.data(), 19);
  for (Index i = 0; i < 6; ++i) {
    for (Index j = 0; j < 19; ++j) {
      double sum = 0;
      for (Index n = 0; n < 40; ++n) {
        sum += static_cast<double>(a(n, i)) * static_cast<double>(b(n, j));
      }
      EXPECT_NEAR(out(i, j), sum, 1e-5);
    }
  }
}

TEST(ForEachTest, EveryPieceOnceAndTheFirstErrorCounts) {
  for (const int threads : {1, 3, 50}) {
    std::vector<std::atomic<int>> calls(40);
    EXPECT_TRUE(ForEach(calls.size(), threads, [&](size_t i) {
                  ++calls[i];
                  return absl::OkStatus();
                }).ok());
    for (const auto& count : calls) EXPECT_EQ(count, 1);
    const absl::Status failed = ForEach(40, threads, [](size_t i) -> absl::Status {
      if (i % 2 == 0) return absl::OkStatus();
      return base::MakeError(base::Reason::kInternal, i == 1 ? "one" : "another");
    });
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(base::FromAbsl(failed.message()).find("one"), 0u);
  }
}

// Two groups' worth of observations, wide enough that the work is parted.
Moments Observed(int64_t inputs, int64_t outputs, int threads) {
  const auto features = Random<FloatRows>(700, inputs, 6);
  const FloatRows targets =
      features * Random<FloatRows>(inputs, outputs, 7) + Random<FloatRows>(700, outputs, 8);
  Moments moments(inputs, outputs);
  moments.Add(features, targets, threads);
  return moments;
}

TEST(ThreadsTest, MomentsAreTheSame) {
  const Moments one = Observed(150, 70, 1), three = Observed(150, 70, 3);
  EXPECT_EQ(one.SquareOfInputs(), three.SquareOfInputs());
  EXPECT_EQ(one.yx, three.yx);
  EXPECT_EQ(one.SquareOfInputs(), one.SquareOfInputs().transpose());
}

// The minimum with compensation, found by hand: columns one after the other, the error of each
// pushed onto the others by the inverse of what is left of H.
TEST(ThreadsTest, RoundingIsTheSameAndThatOfTheTextbook) {
  const Moments moments = Observed(130, 40, 1);
  const auto weights = Random<RowMatrix>(40, 130, 9);
  const Quadratic error = OutputError(moments, weights, Eigen::VectorXd::Zero(40), {.ridge = 0.01});
  const RowMatrix rounded = ColumnRounder(error).Round(0.25, 127);
  EXPECT_EQ(rounded, ColumnRounder(error, 3).Round(0.25, 127));
  EXPECT_EQ(error.Value(weights), error.Value(weights, 3));

  std::vector<Index> order(130);
  for (Index i = 0; i < 130; ++i) order[static_cast<size_t>(i)] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return error.hessian(a, a) > error.hessian(b, b); });
  Eigen::MatrixXd hessian(130, 130);
  RowMatrix target(40, 130);
  for (Index i = 0; i < 130; ++i) {
    target.col(i) = error.target.col(order[static_cast<size_t>(i)]);
    for (Index j = 0; j < 130; ++j) {
      hessian(i, j) = error.hessian(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
    }
  }
  RowMatrix open = hessian.ldlt().solve(target.transpose()).transpose();
  RowMatrix expected(40, 130);
  for (Index i = 0; i < 130; ++i) {
    const Index left = 130 - i;
    const Eigen::MatrixXd inverse = hessian.bottomRightCorner(left, left).inverse();
    for (Index m = 0; m < 40; ++m) {
      const double integer = std::nearbyint(open(m, i) / 0.25);
      expected(m, order[static_cast<size_t>(i)]) = integer;
      const double pushed = (open(m, i) - 0.25 * integer) / inverse(0, 0);
      open.row(m).tail(left) -= pushed * inverse.row(0);
    }
  }
  // A value half way between two integers may fall to either side.
  EXPECT_LE((rounded - expected).cwiseAbs().count(), 5);

  RowMatrix alone = rounded, together = rounded;
  DescendCoordinates(error, 0.25, 127, 3, false, &alone);
  DescendCoordinates(error, 0.25, 127, 3, false, &together, 4);
  EXPECT_EQ(alone, together);
}

TEST(ThreadsTest, FittedLayersAreTheSame) {
  for (const int64_t groups : {1, 2, 12}) {
    Layer layer;
    layer.shape = {.groups = groups, .outputs = 24, .inputs = 20};
    layer.shape.kind = LayerKind::kConv;
    layer.shape.channels = 20;
    const auto weights = Random<FloatRows>(groups * 24, 20, 10);
    layer.float_weight.assign(weights.data(), weights.data() + weights.size());
    LayerMoments moments;
    for (int64_t group = 0; group < groups; ++group) {
      moments.fit.push_back(Observed(20, 24, 1));
      moments.check.push_back(Observed(20, 24, 1));
    }
    LayerPositions positions;
    positions.weight_scale = positions.bias_scale = 1.0 / 64;
    positions.free_weight_scale = positions.free_bias_scale = true;
    const LayerFit one = FitLayer(layer, positions, moments);
    const LayerFit four = FitLayer(layer, positions, moments, {.threads = 4});
    EXPECT_EQ(one.weights, four.weights) << groups;
    EXPECT_EQ(one.bias, four.bias) << groups;
    EXPECT_EQ(one.weight_scale, four.weight_scale) << groups;
  }
}

}  // namespace
}  // namespace gq::quantize
