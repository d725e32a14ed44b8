// Second moments of what a layer reads against what it should write: all that least squares and
// rounding need to know of the samples.
#pragma once

#include <cstdint>
#include <vector>

#include "Eigen/Core"

namespace gq::quantize {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Of one group of a layer with K inputs and M outputs. Sums, not means.
struct Moments {
  Moments(int64_t inputs, int64_t outputs)
      : x(Eigen::VectorXd::Zero(inputs)),
        y(Eigen::VectorXd::Zero(outputs)),
        xx(RowMatrix::Zero(inputs, inputs)),
        yx(RowMatrix::Zero(outputs, inputs)) {}

  // One row an observed position: K features, M targets. The sums do not depend on `threads`.
  void Add(const FloatRows& features, const FloatRows& targets, int threads = 1);

  void Add(const Moments& other);

  // K x K.
  RowMatrix SquareOfInputs() const { return xx.selfadjointView<Eigen::Upper>(); }

  double count = 0;
  Eigen::VectorXd x;  // K
  Eigen::VectorXd y;  // M
  RowMatrix xx;       // K x K; what lies below the diagonal is not kept up to date
  RowMatrix yx;       // M x K
  double yy = 0;
};

}  // namespace gq::quantize
