// Convolutions with a residual stream: what promotes joins and blocks.
#pragma once

#include <memory>

#include "common/explore/explore.h"
#include "common/graph/model.h"
#include "common/quantize/quantize.h"
#include "common/runtime/data_set.h"

namespace gq::explore {

struct ResidualNet {
  // stem -> stem_relu, then for each block b: conv<b>a -> relu<b> -> conv<b>b, add<b> with the
  // stream; the last Add is the output y. Six channels, 5 x 5.
  explicit ResidualNet(int blocks);

  // Without recovery, a goal out of reach.
  Problem MakeProblem() const;

  graph::Model model;
  quantize::QuantizeConfig config;
  quantize::RecoverOptions recover;
  std::unique_ptr<runtime::DataSet> data;
  quantize::QuantizeResult start;
};

}  // namespace gq::explore
