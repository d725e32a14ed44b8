// A chain of convolutions in which it is known which layers int8 spoils.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/explore/explore.h"
#include "common/graph/model.h"
#include "common/quantize/quantize.h"
#include "common/quantize/scheme.h"
#include "common/runtime/data_set.h"
#include "gtest/gtest.h"

namespace gq::explore {

struct SyntheticNet {
  // Convolutions conv0, conv1, ... of 8 channels with a Relu each. In layers of `spoiled` one
  // weight that meets only zeros is 200 times larger than the others, so one scale for the tensor
  // leaves nothing of them. Outputs of layers in `loud` are 16 times larger than elsewhere.
  SyntheticNet(int layers, const std::set<int>& spoiled, const std::set<int>& loud);

  // Without recovery, measured on its own samples.
  Problem MakeProblem(const std::vector<std::string>& targets, const Limits& limits = {});

  graph::Model model;
  quantize::QuantizeConfig config;
  quantize::RecoverOptions recover;
  std::unique_ptr<runtime::DataSet> calibration;
  std::unique_ptr<runtime::DataSet> evaluation;
  quantize::QuantizeResult start;
};

}  // namespace gq::explore
