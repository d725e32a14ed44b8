#include "common/graph/passes.h"

#include <vector>

namespace gq::graph {

std::span<const PassEntry> OptimizationPasses() {
  // Simplifications first, as Quark does: the fusions of the later groups see folded BatchNorms.
  // Constants are merged before Reshapes are joined, so that equal shapes have one name, the first
  // one.
  static const std::vector<PassEntry> passes = {
      {&IdentityRemoval(), PassGroup::kAlways},
      {&DuplicateRemoval(), PassGroup::kSimplify},
      {&BatchNormFusion(), PassGroup::kSimplify},
      {&PadIntoConv(), PassGroup::kSimplify},
      {&DenseToGemm(), PassGroup::kGemm},
      {&ConstantMerging(), PassGroup::kSimplify},
      {&ReshapeFusion(), PassGroup::kSimplify},
      {&BiasCopies(), PassGroup::kCopies},
      {&ReshapeChainFusion(), PassGroup::kOptimize},
      {&PadIntoAveragePool(), PassGroup::kOptimize},
      {&ConvMulFusion(), PassGroup::kOptimize},
      {&ConvAddFusion(), PassGroup::kOptimize},
      {&HardSwishExpansion(), PassGroup::kOptimize},
      {&InstanceNormFusion(), PassGroup::kFuse},
      {&L2NormFusion(), PassGroup::kFuse},
      {&LayerNormFusion(), PassGroup::kFuse},
      {&GeluFusion(), PassGroup::kFuse},
      {&ClipSixToRelu(), PassGroup::kClipSix},
      {&CrossLayerEqualization(), PassGroup::kEqualize},
      {&ReduceMeanToPool(), PassGroup::kReduceMean},
      {&SplitToSlice(), PassGroup::kSplit},
      {&BatchNormToConv(), PassGroup::kBatchNorm},
      {&IdentityRemoval(), PassGroup::kAlways},
  };
  return passes;
}

bool IsEnabled(PassGroup group, const OptimizeOptions& options) {
  switch (group) {
    case PassGroup::kAlways:
      return true;
    case PassGroup::kFuse:
      return options.fuse;
    case PassGroup::kSimplify:
      return options.simplify;
    case PassGroup::kGemm:
      return options.simplify && (options.npu || options.gemm);
    case PassGroup::kCopies:
      return options.copy_biases;
    case PassGroup::kOptimize:
      return options.optimize;
    case PassGroup::kClipSix:
      return options.equalize && options.clip6_to_relu;
    case PassGroup::kEqualize:
      return options.equalize;
    case PassGroup::kReduceMean:
      return options.npu || options.reduce_mean_to_pool;
    case PassGroup::kSplit:
      return options.npu || options.split_to_slice;
    case PassGroup::kBatchNorm:
      return options.npu || options.batch_norm_to_conv;
  }
  return false;
}

}  // namespace gq::graph
