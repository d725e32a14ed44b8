#include "common/quantize/recover/rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "Eigen/Cholesky"
#include "common/quantize/recover/parallel.h"
#include "common/quantize/recover/product.h"

namespace gq::quantize {
namespace {

using Eigen::Index;

double ToGrid(double value, int limit) {
  return std::clamp(std::nearbyint(value), -static_cast<double>(limit), static_cast<double>(limit));
}

constexpr Index kBlockRows = 64;

Index NumberOfBlocks(Index rows) { return (rows + kBlockRows - 1) / kBlockRows; }

// work(first, count) for stretches of `rows` rows that cost `operations` each.
template <typename Work>
void InBlocks(Index rows, Index operations, int threads, const Work& work) {
  const double all = static_cast<double>(rows) * static_cast<double>(operations);
  ForEach(static_cast<size_t>(NumberOfBlocks(rows)), ThreadsFor(all, threads), [&](size_t block) {
    const Index first = static_cast<Index>(block) * kBlockRows;
    work(first, std::min(kBlockRows, rows - first));
    return absl::OkStatus();
  }).IgnoreError();
}

Operand<double> Of(const RowMatrix& matrix, Index first_row = 0) {
  return {matrix.data() + first_row * matrix.cols(), matrix.cols(), 1};
}

Operand<double> Transposed(const RowMatrix& matrix) { return {matrix.data(), 1, matrix.cols()}; }

// a * b, a square.
RowMatrix TimesMatrix(Operand<double> a, const RowMatrix& b, int threads) {
  const Index size = b.rows(), columns = b.cols();
  RowMatrix product = RowMatrix::Zero(size, columns);
  InBlocks(size, size * columns, threads, [&](Index first, Index count) {
    const Operand<double> rows = {a.data + first * a.row, a.row, a.column};
    AddProduct(rows, Of(b), count, columns, size, 1.0, product.data() + first * columns, columns);
  });
  return product;
}

// L with L L^T = the matrix, of which the lower triangle is read. Above its diagonal are zeros.
RowMatrix CholeskyOf(RowMatrix matrix, int threads) {
  constexpr Index kBlock = 128;
  const Index size = matrix.rows();
  for (Index start = 0; start < size; start += kBlock) {
    const Index length = std::min(kBlock, size - start), rest = size - start - length;
    auto corner = matrix.block(start, start, length, length);
    const RowMatrix factor = Eigen::LLT<RowMatrix>(corner).matrixL();
    corner = factor;
    matrix.block(start, start + length, length, rest).setZero();
    if (rest == 0) break;
    auto below = matrix.block(start + length, start, rest, length);
    factor.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(below);
    const RowMatrix panel = below;
    InBlocks(rest, length * rest, threads, [&](Index first, Index count) {
      // The columns up to the block's own diagonal.
      AddProduct(Of(panel, first), Transposed(panel), count, first + count, length, -1.0,
                 &matrix(start + length + first, start + length), size);
    });
  }
  return matrix;
}

// Of a lower triangle with zeros above it.
RowMatrix InverseOfLower(const RowMatrix& lower, int threads) {
  constexpr Index kBlock = 128;
  const Index size = lower.rows();
  RowMatrix inverse = RowMatrix::Zero(size, size);
  for (Index start = 0; start < size; start += kBlock) {
    const Index length = std::min(kBlock, size - start);
    // Rows of the inverse: L_ii^-1 (I - L_i< V_<).
    RowMatrix rows = RowMatrix::Zero(length, start + length);
    rows.rightCols(length).setIdentity();
    InBlocks(length, start * start, threads, [&](Index first, Index count) {
      const Operand<double> left = {&lower(start + first, 0), size, 1};
      AddProduct(left, Of(inverse), count, start, start, -1.0, rows.data() + first * rows.cols(),
                 rows.cols());
    });
    lower.block(start, start, length, length).triangularView<Eigen::Lower>().solveInPlace(rows);
    inverse.block(start, 0, length, start + length) = rows;
  }
  return inverse;
}

std::vector<Index> ByFallingPower(const RowMatrix& hessian) {
  std::vector<Index> order(static_cast<size_t>(hessian.rows()));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return hessian(a, a) > hessian(b, b); });
  return order;
}

// One row of a problem with few columns: the best move of two values by one step each.
bool MovePair(const RowMatrix& hessian, double scale, int limit, Eigen::Ref<Eigen::RowVectorXd> row,
              Eigen::Ref<Eigen::RowVectorXd> gradient) {
  const Index size = hessian.rows();
  double best = -1e-12 * std::abs(gradient.dot(row)) * scale;
  Index best_a = -1, best_b = -1;
  double best_da = 0, best_db = 0;
  for (Index a = 0; a < size; ++a) {
    for (const double da : {-1.0, 1.0}) {
      if (std::abs(row[a] + da) > limit) continue;
      const double first = scale * da * (2 * gradient[a] + scale * da * hessian(a, a));
      for (Index b = a + 1; b < size; ++b) {
        for (const double db : {-1.0, 1.0}) {
          if (std::abs(row[b] + db) > limit) continue;
          const double change = first +
                                scale * db * (2 * gradient[b] + scale * db * hessian(b, b)) +
                                2 * scale * scale * da * db * hessian(a, b);
          if (change < best) {
            best = change;
            best_a = a, best_b = b, best_da = da, best_db = db;
          }
        }
      }
    }
  }
  if (best_a < 0) return false;
  row[best_a] += best_da;
  row[best_b] += best_db;
  gradient += scale * (best_da * hessian.row(best_a) + best_db * hessian.row(best_b));
  return true;
}

}  // namespace

double Quadratic::Value(const RowMatrix& weights, int threads) const {
  const Index size = hessian.rows();
  std::vector<double> sums(static_cast<size_t>(NumberOfBlocks(weights.rows())), 0);
  const auto some = [&](Index first, Index count) {
    RowMatrix product = -2 * target.middleRows(first, count);
    AddProduct(Of(weights, first), Of(hessian), count, size, size, 1.0, product.data(), size);
    sums[static_cast<size_t>(first / kBlockRows)] =
        product.cwiseProduct(weights.middleRows(first, count)).sum();
  };
  InBlocks(weights.rows(), size * size, threads, some);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

Quadratic OutputError(const Moments& moments, const RowMatrix& float_weights,
                      const Eigen::VectorXd& bias, const LeastSquaresOptions& options) {
  const double n = std::max(moments.count, 1.0);
  Quadratic error;
  error.hessian = moments.SquareOfInputs() / n;
  error.target = moments.yx / n;
  const Eigen::VectorXd mean = moments.x / n;
  if (options.centered) {
    error.hessian.noalias() -= mean * mean.transpose();
    error.target.noalias() -= (moments.y / n) * mean.transpose();
  } else {
    error.target.noalias() -= bias * mean.transpose();
  }
  const double power = error.hessian.diagonal().mean();
  const double ridge = options.ridge * power + 1e-12 * (1 + power);
  error.hessian.diagonal().array() += ridge;
  error.target += ridge * float_weights;
  return error;
}

RowMatrix RoundNearest(const RowMatrix& weights, double scale, int limit) {
  return (weights / scale).unaryExpr([limit](double value) { return ToGrid(value, limit); });
}

// The minimum is U^T (U G^T), with H^-1 = U^T U. In reversed order U is the inverse of the Cholesky
// factor of H itself, which costs a fraction of inverting H and factoring that.
ColumnRounder::ColumnRounder(const Quadratic& error, int threads)
    : threads_(threads), order_(ByFallingPower(error.hessian)) {
  const Index size = error.hessian.rows();
  const Index outputs = error.target.rows();
  RowMatrix reversed(size, size), target(size, outputs);
  for (Index i = 0; i < size; ++i) {
    const Index from = order_[static_cast<size_t>(size - 1 - i)];
    for (Index j = 0; j <= i; ++j) {
      reversed(i, j) = error.hessian(from, order_[static_cast<size_t>(size - 1 - j)]);
    }
    target.row(i) = error.target.col(order_[static_cast<size_t>(i)]).transpose();
  }
  const RowMatrix inverse = InverseOfLower(CholeskyOf(std::move(reversed), threads), threads);
  upper_ = inverse.reverse();
  const RowMatrix inner = TimesMatrix(Of(upper_), target, threads);
  minimum_ = TimesMatrix(Transposed(upper_), inner, threads);
}

RowMatrix ColumnRounder::Round(double scale, int limit) const {
  const Index size = upper_.rows(), outputs = minimum_.cols();
  constexpr Index kBlock = 64;
  RowMatrix result(outputs, size);
  // Outputs do not depend on one another.
  const auto some = [&](Index first, Index count) {
    RowMatrix open = minimum_.middleCols(first, count);
    RowMatrix integers(size, count);
    for (Index start = 0; start < size; start += kBlock) {
      const Index length = std::min(kBlock, size - start);
      RowMatrix pushed(length, count);
      for (Index i = 0; i < length; ++i) {
        const Index row = start + i;
        integers.row(row) =
            (open.row(row) / scale).unaryExpr([limit](double v) { return ToGrid(v, limit); });
        pushed.row(i) = (open.row(row) - scale * integers.row(row)) / upper_(row, row);
        for (Index later = i + 1; later < length; ++later) {
          open.row(start + later) -= upper_(row, start + later) * pushed.row(i);
        }
      }
      const Index rest = size - start - length;
      if (rest == 0) continue;
      const Operand<double> pushes = {&upper_(start, start + length), 1, size};
      AddProduct(pushes, Of(pushed), rest, count, length, -1.0,
                 open.data() + (start + length) * count, count);
    }
    for (Index i = 0; i < size; ++i) {
      result.col(order_[static_cast<size_t>(i)]).segment(first, count) =
          integers.row(i).transpose();
    }
  };
  InBlocks(outputs, size * size, threads_, some);
  return result;
}

void DescendCoordinates(const Quadratic& error, double scale, int limit, int sweeps, bool pairs,
                        RowMatrix* integers, int threads) {
  const RowMatrix& hessian = error.hessian;
  const Index size = hessian.rows();
  // Rows do not depend on one another.
  const auto some = [&](Index first, Index count) {
    RowMatrix gradient = -error.target.middleRows(first, count);
    AddProduct(Of(*integers, first), Of(hessian), count, size, size, scale, gradient.data(), size);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      bool moved = false;
      for (Index row = 0; row < count; ++row) {
        auto values = integers->row(first + row);
        for (Index column = 0; column < size; ++column) {
          const double now = values[column];
          const double wanted =
              ToGrid(now - gradient(row, column) / (hessian(column, column) * scale), limit);
          if (wanted == now) continue;
          values[column] = wanted;
          gradient.row(row) += (scale * (wanted - now)) * hessian.row(column);
          moved = true;
        }
        if (pairs) moved |= MovePair(hessian, scale, limit, values, gradient.row(row));
      }
      if (!moved) break;
    }
  };
  InBlocks(integers->rows(), size * size, threads, some);
}

}  // namespace gq::quantize
