// The new parameters of one layer from what was observed of it.
#pragma once

#include <optional>
#include <vector>

#include "common/quantize/recover/layer.h"

namespace gq::quantize {

// Positions (scale = 2^-position) around a layer; nullopt where a scale is no power of two or the
// tensor is float.
struct LayerPositions {
  std::optional<int> input;
  std::optional<int> output;
  double weight_scale = 1;
  double bias_scale = 1;
  int bias_bits = 8;  // 8, 16 or 32; 0 without a bias
  // Each may be chosen anew: nobody else uses it and it is a power of two.
  bool free_weight_scale = false;
  bool free_bias_scale = false;
  // The bias counts in units of input scale * weight scale, whatever becomes of the latter.
  bool tied_bias_scale = false;
  // What one unit of each output is worth against the others, group by group; empty: all the same.
  std::vector<double> output_weights;
};

struct LayerFit {
  std::vector<RowMatrix> weights;  // integers, one matrix a group
  double weight_scale = 1;
  std::vector<double> bias;  // integers
  double bias_scale = 1;
};

// Of each group; the same samples never in both, unless there are too few.
struct LayerMoments {
  std::vector<Moments> fit;
  std::vector<Moments> check;
};

struct FitOptions {
  bool quick = false;  // one strength for all
  int threads = 1;     // the result does not depend on it
};

// Best weights and bias. Scale and strength of the fit are those that leave the least error on the
// samples of `check`, plain rounding among them; the weights are then fitted to all samples.
LayerFit FitLayer(const Layer& layer, const LayerPositions& positions, const LayerMoments& moments,
                  const FitOptions& options = {});

// Weights stay; `weights` are their integers.
LayerFit FitBias(const Layer& layer, const LayerPositions& positions, const LayerMoments& moments,
                 std::vector<RowMatrix> weights);

}  // namespace gq::quantize
