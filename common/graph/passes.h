// The table of graph optimization passes.
#pragma once

#include <span>
#include <string_view>

#include "common/graph/pass.h"

namespace gq::graph {

// Which switch of OptimizeOptions a pass belongs to.
enum class PassGroup {
  kAlways,
  kFuse,
  kSimplify,
  kGemm,
  kCopies,
  kOptimize,
  kClipSix,
  kEqualize,
  kReduceMean,
  kSplit,
  kBatchNorm,
};

struct PassEntry {
  const Pass* pass;
  PassGroup group;
};

// In the order in which they run.
std::span<const PassEntry> OptimizationPasses();

bool IsEnabled(PassGroup group, const OptimizeOptions& options);

// The passes themselves, each in the file that is named after it.
const Pass& IdentityRemoval();
const Pass& BatchNormFusion();
const Pass& BatchNormToConv();
const Pass& PadIntoConv();
const Pass& PadIntoAveragePool();
const Pass& ConvMulFusion();
const Pass& ConvAddFusion();
const Pass& DenseToGemm();
const Pass& ConstantMerging();
const Pass& DuplicateRemoval();
const Pass& ReshapeFusion();
const Pass& ReshapeChainFusion();
const Pass& LayerNormFusion();
const Pass& GeluFusion();
const Pass& InstanceNormFusion();
const Pass& L2NormFusion();
const Pass& HardSwishExpansion();
const Pass& ReduceMeanToPool();
const Pass& SplitToSlice();
const Pass& BiasCopies();     // quark_preparation.cc
const Pass& ClipSixToRelu();  // the same
const Pass& CrossLayerEqualization();

}  // namespace gq::graph
