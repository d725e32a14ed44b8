#include "common/quantize/recover/layer_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/quantize/recover/rounding.h"

namespace gq::quantize {
namespace {

constexpr int kWeightLimit = 127;
// Beyond this many inputs the inverse costs more than it brings; coordinate descent alone works on.
constexpr int64_t kMaxColumns = 1600;
// Up to this many inputs pairs of values are moved as well.
constexpr int64_t kMaxPairColumns = 25;

double Ridge(const Moments& moments) {
  // The fewer positions an input has, the less its moments are to be trusted.
  const double positions = std::max(moments.count, 1.0);
  return 0.003 + 0.05 * static_cast<double>(moments.x.size()) / positions;
}

int LimitOf(int bits) {
  return bits == 32 ? std::numeric_limits<int>::max() : (1 << (bits - 1)) - 1;
}

double Power(int exponent) { return std::ldexp(1.0, exponent); }

struct Candidate {
  double scale = 1;
  std::vector<RowMatrix> weights;
  double error = std::numeric_limits<double>::infinity();
};

class Fitter {
 public:
  Fitter(const Layer& layer, const LayerPositions& positions, const std::vector<Moments>& moments)
      : layer_(layer),
        positions_(positions),
        moments_(moments),
        floats_(ToMatrices(layer.shape, layer.float_weight)),
        has_bias_(positions.bias_bits != 0) {}

  LayerFit Run() {
    std::vector<Quadratic> errors;
    for (size_t group = 0; group < moments_.size(); ++group) {
      errors.push_back(Error(group, Eigen::VectorXd::Zero(layer_.shape.outputs), has_bias_));
    }
    Candidate best;
    for (const double scale : Scales()) {
      Candidate candidate = Round(errors, scale);
      if (candidate.error < best.error) best = std::move(candidate);
    }
    errors.clear();
    LayerFit fit;
    fit.weight_scale = best.scale;
    fit.weights = std::move(best.weights);
    if (!has_bias_) return fit;
    SetBias(&fit);
    // With the bias as it can be held, its rounding error goes into the weights.
    for (size_t group = 0; group < moments_.size(); ++group) {
      Eigen::VectorXd bias(layer_.shape.outputs);
      for (Eigen::Index m = 0; m < bias.size(); ++m) {
        bias[m] = fit.bias[group * static_cast<size_t>(bias.size()) + static_cast<size_t>(m)] *
                  fit.bias_scale;
      }
      DescendCoordinates(Error(group, bias, false), fit.weight_scale, kWeightLimit, 3, Pairs(),
                         &fit.weights[group]);
    }
    return fit;
  }

  void SetBias(LayerFit* fit) const {
    std::vector<double> wanted;
    for (size_t group = 0; group < moments_.size(); ++group) {
      const Moments& moments = moments_[group];
      const double n = std::max(moments.count, 1.0);
      const Eigen::VectorXd bias =
          moments.y / n - fit->weight_scale * (fit->weights[group] * (moments.x / n));
      wanted.insert(wanted.end(), bias.data(), bias.data() + bias.size());
    }
    const int limit = LimitOf(positions_.bias_bits);
    fit->bias_scale = BiasScale(wanted, fit->weight_scale, limit);
    for (const double value : wanted) {
      fit->bias.push_back(std::clamp(std::nearbyint(value / fit->bias_scale),
                                     -static_cast<double>(limit), static_cast<double>(limit)));
    }
  }

 private:
  bool Pairs() const { return layer_.shape.inputs <= kMaxPairColumns; }

  Quadratic Error(size_t group, const Eigen::VectorXd& bias, bool centered) const {
    return OutputError(moments_[group], floats_[group], bias,
                       {.ridge = Ridge(moments_[group]), .centered = centered});
  }

  Candidate Round(const std::vector<Quadratic>& errors, double scale) const {
    Candidate candidate{.scale = scale, .error = 0};
    for (size_t group = 0; group < errors.size(); ++group) {
      RowMatrix integers = layer_.shape.inputs <= kMaxColumns
                               ? RoundColumns(errors[group], scale, kWeightLimit)
                               : RoundNearest(floats_[group], scale, kWeightLimit);
      DescendCoordinates(errors[group], scale, kWeightLimit, 4, Pairs(), &integers);
      candidate.error += errors[group].Value(scale * integers);
      candidate.weights.push_back(std::move(integers));
    }
    return candidate;
  }

  // The scale at hand, and those beside it that the NPU's shift of the product allows.
  std::vector<double> Scales() const {
    std::vector<double> scales = {positions_.weight_scale};
    if (!positions_.free_weight_scale) return scales;
    const int position = -static_cast<int>(std::lround(std::log2(positions_.weight_scale)));
    for (const int near : {position + 1, position - 1}) {
      if (positions_.input && positions_.output) {
        const int shift = near + *positions_.input - *positions_.output;
        if (shift < 0 || shift > 16) continue;
      }
      scales.push_back(Power(-near));
    }
    return scales;
  }

  // The position with the least rounding error within the NPU's limits for the bias shift.
  double BiasScale(const std::vector<double>& wanted, double weight_scale, int limit) const {
    if (!positions_.free_bias_scale) return positions_.bias_scale;
    const int now = -static_cast<int>(std::lround(std::log2(positions_.bias_scale)));
    const int weight = -static_cast<int>(std::lround(std::log2(weight_scale)));
    int lowest = now - 8, highest = now + 8;
    if (positions_.input && positions_.output) {
      const int cut = weight + *positions_.input - *positions_.output;
      const int lower = layer_.before_leaky_relu ? 0 : std::min(0, cut - 16);
      lowest = weight + *positions_.input - 15;
      highest = weight + *positions_.input - lower;
    }
    double best = std::numeric_limits<double>::infinity(), best_scale = positions_.bias_scale;
    for (int position = lowest; position <= highest; ++position) {
      const double scale = Power(-position);
      double error = 0;
      for (const double value : wanted) {
        const double held = std::clamp(std::nearbyint(value / scale), -static_cast<double>(limit),
                                       static_cast<double>(limit));
        error += (value - held * scale) * (value - held * scale);
      }
      if (error < best) {
        best = error;
        best_scale = scale;
      }
    }
    return best_scale;
  }

  const Layer& layer_;
  const LayerPositions& positions_;
  const std::vector<Moments>& moments_;
  std::vector<RowMatrix> floats_;
  bool has_bias_;
};

}  // namespace

LayerFit FitLayer(const Layer& layer, const LayerPositions& positions,
                  const std::vector<Moments>& moments) {
  return Fitter(layer, positions, moments).Run();
}

LayerFit FitBias(const Layer& layer, const LayerPositions& positions,
                 const std::vector<Moments>& moments, std::vector<RowMatrix> weights) {
  LayerFit fit;
  fit.weights = std::move(weights);
  fit.weight_scale = positions.weight_scale;
  Fitter(layer, positions, moments).SetBias(&fit);
  return fit;
}

}  // namespace gq::quantize
