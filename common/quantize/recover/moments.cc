#include "common/quantize/recover/moments.h"

namespace gq::quantize {

void Moments::Add(const FloatRows& features, const FloatRows& targets) {
  count += static_cast<double>(features.rows());
  x += features.colwise().sum().transpose().cast<double>();
  y += targets.colwise().sum().transpose().cast<double>();
  yy += static_cast<double>(targets.squaredNorm());
  // The product in float is as exact as the samples are; sums over samples are kept in double.
  const FloatRows products = features.transpose() * features;
  xx += products.cast<double>();
  const FloatRows cross = targets.transpose() * features;
  yx += cross.cast<double>();
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
