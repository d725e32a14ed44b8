// From a loaded model to the static, simplified float model that is calibrated and quantized.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "common/graph/constant_evaluator.h"
#include "common/graph/model.h"

namespace gq::graph {

struct OptimizeOptions {
  // Older models are converted up to this opset, newer ones are kept.
  int64_t min_opset = 17;
  // Shapes of --input-shape; other inputs get batch 1.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  // Fails with DYNAMIC_SHAPE when an input's shape stays unknown; warns about other tensors.
  bool require_static = true;
  // Turns double and half precision graphs into single precision; inputs and outputs keep their
  // types.
  bool to_float32 = true;
  // Rewrites that other tools call preprocessing. All keep the function of the model.
  bool fuse = true;      // the fusions of the pass table (passes.h)
  bool simplify = true;  // Quark's SimplifyModel: BatchNorm and Pad into Conv, duplicates, Reshapes
  bool optimize = true;  // Quark's OptimizeModel: expansions and fusions of a basic optimization
  bool npu = true;       // Quark's conversions for the NPU: ReduceMean to pool, Split to Slice,
                         // BatchNorm to Conv, and with simplify also MatMul and Add to Gemm
  // Parts that Quark's plain quantizer runs too. MatMul and Add to Gemm, if simplify is on:
  bool gemm = false;
  bool split_to_slice = false;
  bool batch_norm_to_conv = false;
  bool reduce_mean_to_pool = false;
  // Quark's CopyBiasInit: a bias with several readers has a copy for each.
  bool copy_biases = false;
  // Quark's cross-layer equalization and, before it, Clip from 0 to 6 as Relu (ReplaceClip6Relu),
  // which is the one rewrite that does not keep the function.
  bool equalize = false;
  bool clip6_to_relu = false;
  // `optimize` is left to ONNX Runtime, as Quark does it, and nodes that it leaves without a name
  // stay so. What it cannot take is prepared by our own passes, with a warning.
  bool by_runtime = false;
  // Names of passes (passes.h) that are not run.
  std::vector<std::string> disabled;
};

struct PassReport {
  std::string name;
  int changed = 0;
  std::vector<std::string> details;  // one sentence a change, at most 100 kept
};

struct OptimizeReport {
  std::vector<PassReport> passes;  // those that changed something, in order
  // Node that is gone -> node that does its work now (the last one when it was fused several
  // times). Exclusions and overrides by name follow this.
  std::map<std::string, std::string> renamed_nodes;
  std::vector<std::string> warnings;
  int64_t opset_before = 0;
  int64_t opset_after = 0;

  // The present name of a node of the loaded model: itself when it was not replaced.
  const std::string& CurrentName(const std::string& node) const;
};

// Works on `model` in place; on an error its content is unspecified. Errors: MODEL_INVALID,
// MODEL_UNSUPPORTED, DYNAMIC_SHAPE (lists tensors and dimensions and names --input-shape),
// INVALID_FLAG (input_shapes names no input or contradicts the model), CANCELLED.
absl::StatusOr<OptimizeReport> OptimizeGraph(Model& model, const OptimizeOptions& options,
                                             ConstantEvaluator& evaluator,
                                             base::Reporter& reporter);

}  // namespace gq::graph
