#include "common/job/run_file.h"

namespace gq::job {

std::string RunFileTemplate() {
  return R"(# A job for gq: 'gq run -f run.yaml'. Flags of the command line win over this file, and
# run.detail.yaml beside it wins over it too. 'gq validate' checks both. Paths are relative to this
# file. Every flag of 'gq run' is a key, with _ for -; lines behind # show defaults.
version: "1.0"

# --- Model and data -----------------------------------------------------------------------------
model: model.onnx              # .onnx or .onnxtxt
# calibration_data: []         # .npy, .npz or folders; none: seeded random data, with a warning
# evaluation_data: []          # none: the calibration data
# labels: null                 # .npy of integers, for true top-1 and top-5
# reference: null              # FP32 model to measure against, with mode: requantize
# num_samples: null            # all
# seed: 42
# input_shape: {}              # x: 1x3x224x224 pins open dimensions; batches are 1 otherwise
# allow_nonfinite: false       # skip samples with NaN or Inf instead of failing

# --- Quantization -------------------------------------------------------------------------------
# device: ve2                  # ve2, ve2-xc2ve3858, ve2-xc2ve3558, ve2-xc2ve3358, xnnpack-cpu, ethos-u-..., or
                               # another that 'gq boards list' shows
# mode: full                   # full, dry-run, requantize
# config: null                 # Quark JSON file, or a built-in: full_vint8 full_bf16 full_fp16
                               # vint8_bf16_head_tail xint8 w8a8 w8a8_dynamic w4a8_dynamic w8a16
# calibration_method: null     # minmax nonoverflow minmse percentile:99.99 entropy
                               # layerwise-percentile moving-average; by scheme
# compat: null                 # quark: Quark's exact behaviour
# recover: null                # none, auto, or names of accuracy recovery passes; by strategy
# exclude: []                  # nodes that are not quantized
# allow_unmatched: false
# fp_nodes: []                 # nodes kept in fp_precision
# fp_op_types: []
# fp_precision: bf16           # bf16, fp16
# mixed_form: float            # float, cast
# edge_quant: none             # none input output both auto; needs yes: true
# head: 1                      # compute layers of vint8_bf16_head_tail
# tail: 1
# engine: native               # native, quark

# --- Goals --------------------------------------------------------------------------------------
# target_accuracy: []          # "psnr>30", "top1>=fp32-1%"; metrics psnr passrate cosine mse mae
                               # max_abs top1 top5 snr; none: the default goal of the task type
# task: null                   # classification detection segmentation regression; detected
# atol: 0.015
# rtol: 0.01
# explore: false               # search for a mixed-precision assignment, in a step of its own
# explore_strategy: greedy     # greedy, sensitivity

# --- Compiler and board -------------------------------------------------------------------------
# stage: compile               # quantize, compile, exec; compile and exec need profile below
# compiler_option: {}          # dp_size, tp_size, optimize_level, ...

# --- Steps: required ----------------------------------------------------------------------------
steps:
- graph_optimize: null         # leave it out to take the model as it is
- graph_quantize:
  - scheme: vint8              # ve2: vint8 (int8, fastest; start here), bf16 (closest to FP32), fp16,
                               #   vint8+bf16 and vint8+fp16 (int8 with the layers that need it in
                               #   16 bits), xint8
                               # xnnpack: W8-A8 first (the most tested), W8-A8_dynamic when ranges
                               #   change from input to input, W4-A8_dynamic for the smallest
                               #   weights, language models above all
                               # ethos-u: W8-A8 first, W8-A16 for more accuracy
    automatic_mixed_precision: null   # GREEDY or SENSITIVITY search for layers that need more

evaluate: {}                   # leave it out to skip
profile: {}                    # compile and, with stage: exec, run on a board; leave it out to skip
)";
}

std::string RunDetailTemplate() {
  return R"(# Details of the steps in run.yaml beside this file. Everything is optional; lines behind # show
# defaults.
detail:
  # batch_size: 1              # what open batch dimensions are pinned to
  graph_quantize[0]:           # the graph_quantize step
    # weight:
    #   granularity: CHANNEL   # CHANNEL, TENSOR; the schemes of ve2 take TENSOR
    #   calibration_method: MINMAX      # MINMAX, PERCENTILE
    #   percentile: 99.9       # only with PERCENTILE; above 50 and up to 100
    #   group_size: 32         # only with W4-A8_dynamic: 32 64 128 256
    # activation:              # not with the dynamic schemes, which find ranges at run time
    #   granularity: TENSOR    # TENSOR
    #   calibration_method: MINMAX      # MINMAX, PERCENTILE, ENTROPY; ve2: MINMAX, MINMSE, NONOVERFLOW
    #   percentile: 99.9       # only with PERCENTILE
    #   symmetric: false       # W8-A8: true maps the largest absolute value to the largest integer
    # parameters:
    #   calibration:           # not with the dynamic schemes
    #     num_samples: -1      # -1: all
  # mixed_precision:           # limits of the search (--explore-limit KEY=VALUE)
  #   precision: BF16          # BF16, FP16, FP32: what layers are promoted to; by device
  #   pass_rate: 99.9          # percent; reached: stop
  #   min_gain_db: 0.5         # with patience: stop when each of the last promotions gained less
  #   patience: 3
  #   max_share: 0.30          # of the compute layers
  #   max_iterations: 50
  #   time_budget: null        # seconds, or 10m, 2h
  #   keep: []                 # layers that stay promoted: names or patterns
  #   forbid: []               # layers that are never promoted
)";
}

}  // namespace gq::job
