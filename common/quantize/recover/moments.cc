#include "common/quantize/recover/moments.h"

#include <algorithm>

#include "common/quantize/recover/parallel.h"
#include "common/quantize/recover/product.h"

namespace gq::quantize {
namespace {

using Eigen::Index;

constexpr Index kBlock = 64;  // rows of a product that are computed as one piece

// out += transpose(a) * b, rows `first` to `first + count` of it, from column `from` on.
void AddTransposedProduct(const FloatRows& a, const FloatRows& b, Index first, Index count,
                          Index from, RowMatrix* out) {
  const Operand<float> left = {a.data() + first, 1, a.cols()};
  const Operand<float> right = {b.data() + from, b.cols(), 1};
  AddProduct(left, right, count, b.cols() - from, a.rows(), 1.0,
             out->data() + first * out->cols() + from, out->cols());
}

}  // namespace

void Moments::Add(const FloatRows& features, const FloatRows& targets, int threads) {
  count += static_cast<double>(features.rows());
  x += features.colwise().sum().transpose().cast<double>();
  y += targets.colwise().sum().transpose().cast<double>();
  yy += static_cast<double>(targets.squaredNorm());
  const Index inputs = features.cols(), outputs = targets.cols();
  const Index squares = (inputs + kBlock - 1) / kBlock, crosses = (outputs + kBlock - 1) / kBlock;
  const double operations = static_cast<double>(features.rows()) * static_cast<double>(inputs) *
                            static_cast<double>(inputs / 2 + outputs);
  const auto block = [&](size_t piece) {
    const auto number = static_cast<Index>(piece);
    if (number < squares) {
      const Index first = number * kBlock;
      AddTransposedProduct(features, features, first, std::min(kBlock, inputs - first), first, &xx);
    } else {
      const Index first = (number - squares) * kBlock;
      AddTransposedProduct(targets, features, first, std::min(kBlock, outputs - first), 0, &yx);
    }
    return absl::OkStatus();
  };
  ForEach(static_cast<size_t>(squares + crosses), ThreadsFor(operations, threads), block)
      .IgnoreError();
}

void Moments::Add(const Moments& other) {
  count += other.count;
  x += other.x;
  y += other.y;
  xx += other.xx;
  yx += other.yx;
  yy += other.yy;
}

}  // namespace gq::quantize
