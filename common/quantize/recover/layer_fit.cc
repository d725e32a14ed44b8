#include "common/quantize/recover/layer_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "common/quantize/recover/parallel.h"
#include "common/quantize/recover/rounding.h"

namespace gq::quantize {
namespace {

constexpr int kWeightLimit = 127;
constexpr size_t kManyGroups = 4;
// Beyond this many inputs the inverse costs more than it brings; coordinate descent alone works on.
constexpr int64_t kMaxColumns = 1600;
// Beyond this many only the middle ridge is tried.
constexpr int64_t kManyColumns = 600;
// Up to this many inputs pairs of values are moved as well.
constexpr int64_t kMaxPairColumns = 25;

// Pulls towards the float weights that are tried, strongest suspicion of the samples last.
constexpr double kMiddleRidge = 0.3;
constexpr double kOtherRidges[] = {0.03, 3};

int LimitOf(int bits) {
  return bits == 32 ? std::numeric_limits<int>::max() : (1 << (bits - 1)) - 1;
}

double Power(int exponent) { return std::ldexp(1.0, exponent); }

class Fitter {
 public:
  Fitter(const Layer& layer, const LayerPositions& positions, const LayerMoments& moments,
         const FitOptions& options)
      : layer_(layer),
        positions_(positions),
        seen_(moments),
        floats_(ToMatrices(layer.shape, layer.float_weight)),
        has_bias_(positions.bias_bits != 0),
        quick_(options.quick),
        threads_(options.threads),
        // Many small groups are worked on side by side, a few large ones one after the other.
        inner_threads_(moments.fit.size() < kManyGroups ? options.threads : 1) {
    for (size_t group = 0; group < moments.fit.size(); ++group) {
      all_.push_back(moments.fit[group]);
      all_.back().Add(moments.check[group]);
    }
  }

  LayerFit Run() {
    const auto [scale, ridge] = Choose();
    LayerFit fit;
    fit.weight_scale = scale;
    fit.weights.resize(all_.size());
    ForGroups([&, scale = scale, ridge = ridge](size_t group) {
      fit.weights[group] = ridge ? Round(all_, group, {scale}, *ridge)[0] : Nearest(group, scale);
    });
    if (!has_bias_) return fit;
    SetBias(&fit);
    if (!ridge) return fit;
    // With the bias as it can be held, its rounding error goes into the weights.
    ForGroups([&, scale = scale, ridge = ridge](size_t group) {
      Eigen::VectorXd bias(layer_.shape.outputs);
      for (Eigen::Index m = 0; m < bias.size(); ++m) {
        bias[m] = fit.bias[group * static_cast<size_t>(bias.size()) + static_cast<size_t>(m)] *
                  fit.bias_scale;
      }
      DescendCoordinates(Error(all_, group, bias, false, *ridge), scale, kWeightLimit, 3, Pairs(),
                         &fit.weights[group], inner_threads_);
    });
    return fit;
  }

  void SetBias(LayerFit* fit) const {
    std::vector<double> wanted;
    for (size_t group = 0; group < all_.size(); ++group) {
      const Moments& moments = all_[group];
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
  // work(group) for each group; a group's results are its own.
  template <typename Work>
  void ForGroups(const Work& work) const {
    const double each = static_cast<double>(layer_.shape.inputs * layer_.shape.inputs) *
                        static_cast<double>(layer_.shape.inputs + layer_.shape.outputs);
    const int threads =
        inner_threads_ > 1 ? 1 : ThreadsFor(each * static_cast<double>(all_.size()), threads_);
    ForEach(all_.size(), threads, [&](size_t group) {
      work(group);
      return absl::OkStatus();
    }).IgnoreError();
  }

  bool Pairs() const { return layer_.shape.inputs <= kMaxPairColumns; }

  Quadratic Error(const std::vector<Moments>& moments, size_t group, const Eigen::VectorXd& bias,
                  bool centered, double ridge) const {
    // The fewer positions an input has, the less its moments are to be trusted.
    const double inputs = static_cast<double>(layer_.shape.inputs);
    const double trust = 1 + 2 * inputs / std::max(moments[group].count, 1.0);
    return OutputError(moments[group], floats_[group], bias,
                       {.ridge = ridge * trust, .centered = centered});
  }

  RowMatrix Nearest(size_t group, double scale) const {
    return RoundNearest(floats_[group], scale, kWeightLimit);
  }

  // The integers for each of `scales`.
  std::vector<RowMatrix> Round(const std::vector<Moments>& moments, size_t group,
                               const std::vector<double>& scales, double ridge) const {
    const Quadratic error =
        Error(moments, group, Eigen::VectorXd::Zero(layer_.shape.outputs), has_bias_, ridge);
    std::optional<ColumnRounder> rounder;
    if (layer_.shape.inputs <= kMaxColumns) rounder.emplace(error, inner_threads_);
    std::vector<RowMatrix> results;
    for (const double scale : scales) {
      RowMatrix& integers = results.emplace_back(rounder ? rounder->Round(scale, kWeightLimit)
                                                         : Nearest(group, scale));
      DescendCoordinates(error, scale, kWeightLimit, 4, Pairs(), &integers, inner_threads_);
    }
    return results;
  }

  // Scale and ridge that leave the least error on samples the weights were not fitted on; no ridge:
  // rounding to nearest is best.
  std::pair<double, std::optional<double>> Choose() const {
    const size_t groups = all_.size();
    std::vector<Quadratic> checks(groups);
    std::pair<double, std::optional<double>> best = {positions_.weight_scale, std::nullopt};
    std::vector<double> nearest(groups, 0);
    ForGroups([&](size_t group) {
      checks[group] =
          Error(seen_.check, group, Eigen::VectorXd::Zero(layer_.shape.outputs), has_bias_, 0);
      Weigh(group, &checks[group].target);
      RowMatrix weights = best.first * Nearest(group, best.first);
      Weigh(group, &weights);
      nearest[group] = checks[group].Value(weights, inner_threads_);
    });
    double least = std::accumulate(nearest.begin(), nearest.end(), 0.0);
    const auto consider = [&](const std::vector<double>& scales, double ridge) {
      std::vector<std::vector<double>> parts(groups, std::vector<double>(scales.size(), 0));
      ForGroups([&](size_t group) {
        const auto rounded = Round(seen_.fit, group, scales, ridge);
        for (size_t i = 0; i < scales.size(); ++i) {
          RowMatrix weights = scales[i] * rounded[i];
          Weigh(group, &weights);
          parts[group][i] = checks[group].Value(weights, inner_threads_);
        }
      });
      for (size_t i = 0; i < scales.size(); ++i) {
        double error = 0;
        for (const auto& part : parts) error += part[i];
        if (error >= least) continue;
        least = error;
        best = {scales[i], ridge};
      }
    };
    consider(Scales(), kMiddleRidge);
    if (quick_ || layer_.shape.inputs > kManyColumns) return best;
    const double scale = best.first;
    for (const double ridge : kOtherRidges) consider({scale}, ridge);
    return best;
  }

  // Errors of outputs of different units count by what they are worth.
  void Weigh(size_t group, RowMatrix* rows) const {
    if (positions_.output_weights.empty()) return;
    for (Eigen::Index m = 0; m < rows->rows(); ++m) {
      rows->row(m) *=
          positions_
              .output_weights[group * static_cast<size_t>(rows->rows()) + static_cast<size_t>(m)];
    }
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
    if (positions_.tied_bias_scale) {
      return positions_.bias_scale * (weight_scale / positions_.weight_scale);
    }
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
  const LayerMoments& seen_;
  std::vector<Moments> all_;
  std::vector<RowMatrix> floats_;
  bool has_bias_;
  bool quick_;
  int threads_;
  int inner_threads_;  // within one group
};

}  // namespace

LayerFit FitLayer(const Layer& layer, const LayerPositions& positions, const LayerMoments& moments,
                  const FitOptions& options) {
  return Fitter(layer, positions, moments, options).Run();
}

LayerFit FitBias(const Layer& layer, const LayerPositions& positions, const LayerMoments& moments,
                 std::vector<RowMatrix> weights) {
  LayerFit fit;
  fit.weights = std::move(weights);
  fit.weight_scale = positions.weight_scale;
  Fitter(layer, positions, moments, {}).SetBias(&fit);
  return fit;
}

}  // namespace gq::quantize
