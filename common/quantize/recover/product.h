// Products of large matrices, with the vector instructions that the host has.
#pragma once

#include "Eigen/Core"

namespace gq::quantize {

// A matrix somewhere in memory; element (i, k) is at data[i * row + k * column].
template <typename T>
struct Operand {
  const T* data = nullptr;
  Eigen::Index row = 0;
  Eigen::Index column = 0;
};

// out[i * stride + j] += factor * sum over k of a(i, k) * b(k, j), for i < rows, j < columns,
// k < depth. Sums over 256 products are kept in T, longer ones in double. An element does not
// depend on how many rows or columns are asked for at once.
template <typename T>
void AddProduct(Operand<T> a, Operand<T> b, Eigen::Index rows, Eigen::Index columns,
                Eigen::Index depth, double factor, double* out, Eigen::Index stride);

extern template void AddProduct(Operand<float>, Operand<float>, Eigen::Index, Eigen::Index,
                                Eigen::Index, double, double*, Eigen::Index);
extern template void AddProduct(Operand<double>, Operand<double>, Eigen::Index, Eigen::Index,
                                Eigen::Index, double, double*, Eigen::Index);

}  // namespace gq::quantize
