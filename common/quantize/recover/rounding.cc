#include "common/quantize/recover/rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "Eigen/Cholesky"

namespace gq::quantize {
namespace {

using Eigen::Index;

double ToGrid(double value, int limit) {
  return std::clamp(std::nearbyint(value), -static_cast<double>(limit), static_cast<double>(limit));
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

double Quadratic::Value(const RowMatrix& weights) const {
  return ((weights * hessian).cwiseProduct(weights) - 2 * weights.cwiseProduct(target)).sum();
}

Quadratic OutputError(const Moments& moments, const RowMatrix& float_weights,
                      const Eigen::VectorXd& bias, const LeastSquaresOptions& options) {
  const double n = std::max(moments.count, 1.0);
  Quadratic error;
  error.hessian = moments.xx / n;
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

ColumnRounder::ColumnRounder(const Quadratic& error) : order_(ByFallingPower(error.hessian)) {
  const Index size = error.hessian.rows();
  Eigen::MatrixXd hessian(size, size);
  RowMatrix target(error.target.rows(), size);
  for (Index i = 0; i < size; ++i) {
    const Index from = order_[static_cast<size_t>(i)];
    target.col(i) = error.target.col(from);
    for (Index j = 0; j < size; ++j) {
      hessian(i, j) = error.hessian(from, order_[static_cast<size_t>(j)]);
    }
  }
  const Eigen::LLT<Eigen::MatrixXd> factor(hessian);
  minimum_ = factor.solve(target.transpose());
  const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(size, size));
  upper_ = Eigen::LLT<Eigen::MatrixXd>(inverse).matrixU();
}

RowMatrix ColumnRounder::Round(double scale, int limit) const {
  const Index size = upper_.rows();
  RowMatrix open = minimum_;
  constexpr Index kBlock = 64;
  RowMatrix integers(size, open.cols());
  for (Index start = 0; start < size; start += kBlock) {
    const Index length = std::min(kBlock, size - start);
    RowMatrix pushed(length, open.cols());
    for (Index i = 0; i < length; ++i) {
      const Index row = start + i;
      const double diagonal = upper_(row, row);
      integers.row(row) =
          (open.row(row) / scale).unaryExpr([limit](double v) { return ToGrid(v, limit); });
      pushed.row(i) = (open.row(row) - scale * integers.row(row)) / diagonal;
      for (Index later = i + 1; later < length; ++later) {
        open.row(start + later) -= upper_(row, start + later) * pushed.row(i);
      }
    }
    const Index rest = size - start - length;
    if (rest > 0) {
      open.bottomRows(rest).noalias() -=
          upper_.block(start, start + length, length, rest).transpose() * pushed;
    }
  }
  RowMatrix result(open.cols(), size);
  for (Index i = 0; i < size; ++i) {
    result.col(order_[static_cast<size_t>(i)]) = integers.row(i).transpose();
  }
  return result;
}

void DescendCoordinates(const Quadratic& error, double scale, int limit, int sweeps, bool pairs,
                        RowMatrix* integers) {
  const RowMatrix& hessian = error.hessian;
  const Index size = hessian.rows();
  RowMatrix gradient = scale * *integers * hessian - error.target;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool moved = false;
    for (Index row = 0; row < integers->rows(); ++row) {
      for (Index column = 0; column < size; ++column) {
        const double now = (*integers)(row, column);
        const double wanted =
            ToGrid(now - gradient(row, column) / (hessian(column, column) * scale), limit);
        if (wanted == now) continue;
        (*integers)(row, column) = wanted;
        gradient.row(row) += (scale * (wanted - now)) * hessian.row(column);
        moved = true;
      }
      if (pairs) {
        moved |= MovePair(hessian, scale, limit, integers->row(row), gradient.row(row));
      }
    }
    if (!moved) break;
  }
}

}  // namespace gq::quantize
