// Rounding of a layer's weights so that the errors of the single weights cancel in its output. No
// result depends on `threads`.
#pragma once

#include <vector>

#include "Eigen/Core"
#include "common/quantize/recover/moments.h"

namespace gq::quantize {

// The quadratic f(W) = tr(W H W^T) - 2 tr(W G^T) over M x K matrices: the squared output error of
// a linear layer up to a constant. H is K x K, symmetric and positive definite.
struct Quadratic {
  RowMatrix hessian;  // H
  RowMatrix target;   // G, M x K

  // Sum over all rows.
  double Value(const RowMatrix& weights, int threads = 1) const;
};

struct LeastSquaresOptions {
  // Pull towards the float weights, relative to the mean of the diagonal of H.
  double ridge = 0.01;
  // Takes means out of inputs and outputs, for a layer whose bias is fitted afterwards.
  bool centered = true;
};

// Mean squared output error of `weights` against the targets in `moments`, plus
// ridge * |weights - float_weights|^2. Without centering, `bias` (M values) is part of the output.
Quadratic OutputError(const Moments& moments, const RowMatrix& float_weights,
                      const Eigen::VectorXd& bias, const LeastSquaresOptions& options);

// Rounding with compensation: column by column, the column of the largest input power first, each
// rounded to nearest and its error pushed onto the columns still open through the inverse of H
// (Frantar et al., "GPTQ", 2022), from the exact minimum of the error.
class ColumnRounder {
 public:
  // Factors H once, for any number of scales.
  explicit ColumnRounder(const Quadratic& error, int threads = 1);

  // Integers in [-limit, limit] that stand for q * scale.
  RowMatrix Round(double scale, int limit) const;

 private:
  int threads_;
  std::vector<Eigen::Index> order_;
  RowMatrix minimum_;  // K x M, in this order
  RowMatrix upper_;    // U with U^T U = the inverse of H
};

// Nearest integers, without compensation.
RowMatrix RoundNearest(const RowMatrix& weights, double scale, int limit);

// Moves single integers of `integers` to where `error` is least for the others as they are, until
// nothing moves or `sweeps` are over; with `pairs`, pairs of neighbouring values by one step each
// as well (for small K).
void DescendCoordinates(const Quadratic& error, double scale, int limit, int sweeps, bool pairs,
                        RowMatrix* integers, int threads = 1);

}  // namespace gq::quantize
