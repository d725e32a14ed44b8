#include <array>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/flag_values.h"
#include "common/job/flags.h"
#include "common/job/performance_target.h"

namespace gq::job {
namespace {

using base::StrCat;
using Values = std::span<const std::string>;

constexpr unsigned kQuantizing =
    kVerbRun | kVerbQuantize | kVerbRequantize | kVerbDryRun | kVerbExplore;
constexpr unsigned kWithData = kQuantizing | kVerbEvaluate;
constexpr unsigned kComparing = kWithData | kVerbDequantize;
constexpr unsigned kCompiling = kVerbRun | kVerbCompile;
constexpr unsigned kOnBoard = kVerbRun | kVerbCompile | kVerbBoardRun;
constexpr unsigned kAll = kWithData | kVerbAnalyze | kVerbDequantize | kOnBoard;

constexpr std::string_view kFiles = "Model and data";
constexpr std::string_view kScheme = "Quantization";
constexpr std::string_view kGoal = "Accuracy and search";
constexpr std::string_view kTarget = "Compiler and board";
constexpr std::string_view kQueue = "Job and queue";
constexpr std::string_view kShow = "Client";

constexpr bool kEverywhere = false;
constexpr bool kClientOnly = true;
constexpr int64_t kMaxCount = 2147483647;

// How a value gets into the request, for the common cases.
#define GQ_SPEC_TEXT(field)                                \
  [](const FlagDef&, Values values, JobRequest& request) { \
    request.spec.set_##field(values[0]);                   \
    return absl::OkStatus();                               \
  }
#define GQ_SPEC_TEXTS(field)                                                 \
  [](const FlagDef&, Values values, JobRequest& request) {                   \
    for (const std::string& value : values) request.spec.add_##field(value); \
    return absl::OkStatus();                                                 \
  }
#define GQ_SPEC_CHECKED_TEXTS(field, check)                                     \
  [](const FlagDef& flag, Values values, JobRequest& request) -> absl::Status { \
    for (const std::string& value : values) {                                   \
      GQ_RETURN_IF_ERROR(check(flag, value));                                   \
      request.spec.add_##field(value);                                          \
    }                                                                           \
    return absl::OkStatus();                                                    \
  }
#define GQ_SPEC_SWITCH(field)                       \
  [](const FlagDef&, Values, JobRequest& request) { \
    request.spec.set_##field(true);                 \
    return absl::OkStatus();                        \
  }
#define GQ_SPEC_INTEGER(field, low, high)                                               \
  [](const FlagDef& flag, Values values, JobRequest& request) -> absl::Status {         \
    GQ_ASSIGN_OR_RETURN(const int64_t value, ParseInteger(flag, values[0], low, high)); \
    request.spec.set_##field(value);                                                    \
    return absl::OkStatus();                                                            \
  }
#define GQ_SPEC_TOLERANCE(field)                                                \
  [](const FlagDef& flag, Values values, JobRequest& request) -> absl::Status { \
    GQ_ASSIGN_OR_RETURN(const double value, ParseTolerance(flag, values[0]));   \
    request.spec.set_##field(value);                                            \
    return absl::OkStatus();                                                    \
  }
#define GQ_SPEC_DURATION(field)                                                   \
  [](const FlagDef& flag, Values values, JobRequest& request) -> absl::Status {   \
    GQ_ASSIGN_OR_RETURN(const int64_t value, ParseSeconds(flag.name, values[0])); \
    request.spec.mutable_##field()->set_seconds(value);                           \
    return absl::OkStatus();                                                      \
  }
#define GQ_LOCAL_TEXT(field)                               \
  [](const FlagDef&, Values values, JobRequest& request) { \
    request.local.field = values[0];                       \
    return absl::OkStatus();                               \
  }
#define GQ_LOCAL_TEXTS(field)                                 \
  [](const FlagDef&, Values values, JobRequest& request) {    \
    request.local.field.assign(values.begin(), values.end()); \
    return absl::OkStatus();                                  \
  }
#define GQ_LOCAL_SWITCH(field)                      \
  [](const FlagDef&, Values, JobRequest& request) { \
    request.local.field = true;                     \
    return absl::OkStatus();                        \
  }

absl::Status ApplyMode(const FlagDef&, Values values, JobRequest& request) {
  request.spec.set_kind(values[0] == "dry-run"      ? gq::v1::JOB_KIND_DRY_RUN
                        : values[0] == "requantize" ? gq::v1::JOB_KIND_REQUANTIZE
                                                    : gq::v1::JOB_KIND_FULL);
  return absl::OkStatus();
}

absl::Status ApplyStage(const FlagDef&, Values values, JobRequest& request) {
  request.spec.set_stage(values[0] == "quantize" ? gq::v1::STAGE_QUANTIZE
                         : values[0] == "exec"   ? gq::v1::STAGE_EXEC
                                                 : gq::v1::STAGE_COMPILE);
  return absl::OkStatus();
}

// `psnr>30,cosine>0.99` counts as two goals. What a goal may say is checked where goals are read.
absl::Status ApplyTargetAccuracy(const FlagDef& flag, Values values, JobRequest& request) {
  for (const std::string& value : values) {
    for (std::string_view goal : base::StrSplit(value, ',')) {
      goal = base::StripSpace(goal);
      if (goal.find_first_of("<>") == std::string_view::npos) {
        return BadValue(flag, value, "METRIC OP NUMBER with OP one of > >= < <=, like psnr>30");
      }
      request.spec.add_target_accuracy(std::string(goal));
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyMethod(const FlagDef& flag, Values values, JobRequest& request) {
  const std::string method = absl::AsciiStrToLower(values[0]);  // MinMSE, as Quark writes it
  GQ_RETURN_IF_ERROR(CheckCalibrationMethod(flag, method));
  request.spec.set_calibration_method(method);
  return absl::OkStatus();
}

absl::Status ApplyLabels(const FlagDef& flag, Values values, JobRequest& request) {
  for (const std::string& value : values) {
    GQ_RETURN_IF_ERROR(CheckKeyValue(flag, value));
    const size_t equals = value.find('=');
    (*request.spec.mutable_label())[value.substr(0, equals)] = value.substr(equals + 1);
  }
  return absl::OkStatus();
}

absl::Status CheckPerformance(const FlagDef& /*flag*/, const std::string& value) {
  return ParsePerformanceTarget(value).status();
}

absl::Status ApplyYes(const FlagDef&, Values, JobRequest& request) {
  request.spec.set_consent(true);
  request.local.yes = true;
  return absl::OkStatus();
}

std::vector<FlagDef> MakeTable() {
  using enum FlagShape;
  return {
      // clang-format off
      {"model", kValue, "PATH", kFiles, "required", "The model: .onnx or .onnxtxt; external data is found beside it.",
       {}, kAll, kEverywhere, GQ_LOCAL_TEXT(model)},
      {"calibration-data", kPaths, "PATH...", kFiles, "seeded random data, with a warning",
       "Calibration samples: .npy, .npz (keys are input names), several files, or folders of them.",
       {}, kQuantizing | kVerbDequantize, kEverywhere, GQ_LOCAL_TEXTS(calibration_data)},
      {"evaluation-data", kPaths, "PATH...", kFiles, "the calibration data",
       "Samples to judge the result on; same forms as --calibration-data.",
       {}, kVerbAnalyze | kComparing | kVerbBoardRun, kEverywhere, GQ_LOCAL_TEXTS(evaluation_data)},
      {"labels", kValue, "PATH", kFiles, "none", "Integer labels of the evaluation samples (.npy); enables true top-1 and top-5.",
       {}, kWithData, kEverywhere, GQ_LOCAL_TEXT(labels)},
      {"reference", kValue, "FP32.onnx", kFiles, "the stripped model", "The true FP32 model to measure against (requantize, evaluate).",
       {}, kVerbRun | kVerbRequantize | kVerbEvaluate, kEverywhere, GQ_LOCAL_TEXT(reference)},
      {"quantized", kValue, "Q.onnx", kFiles, "none", "The quantized form of the model: its error is shown tensor by tensor.",
       {}, kVerbAnalyze, kEverywhere, GQ_LOCAL_TEXT(quantized)},
      {"from", kValue, "JOB", kFiles, "none", "Start from the result of an earlier job (@last works).",
       {}, kVerbRun, kClientOnly, GQ_SPEC_TEXT(from_job)},
      {"num-samples", kValue, "N", kFiles, "all", "Number of calibration and evaluation samples to use.",
       {}, kComparing | kVerbAnalyze, kEverywhere, GQ_SPEC_INTEGER(num_samples, 1, kMaxCount)},
      {"seed", kValue, "N", kFiles, "42", "Seed for everything random.",
       {}, kComparing | kVerbAnalyze, kEverywhere, GQ_SPEC_INTEGER(seed, 0, INT64_MAX)},
      {"input-shape", kRepeat, "NAME=DIMS", kFiles, "batch 1", "Pins dynamic dimensions, like x=1x3x224x224; may be repeated.",
       {}, kAll, kEverywhere, GQ_SPEC_CHECKED_TEXTS(input_shape, CheckInputShape)},
      {"allow-nonfinite", kSwitch, "", kFiles, "off", "Skip samples that hold NaN or Inf, with a warning, instead of failing.",
       {}, kComparing, kEverywhere, GQ_SPEC_SWITCH(allow_nonfinite)},
      {"file", kValue, "run.yaml", kFiles, "none", "The job from a file; flags win over it.",
       {}, kQuantizing, kEverywhere, GQ_LOCAL_TEXT(run_file)},
      {"detail", kValue, "run.detail.yaml", kFiles, "beside run.yaml", "Details of the steps in run.yaml.",
       {}, kQuantizing, kEverywhere, GQ_LOCAL_TEXT(detail_file)},

      {"config", kValue, "PATH|PRESET", kScheme, "derived from the model",
       "Quark JSON, or a built-in preset: full_vint8, full_bf16, full_fp16, vint8_bf16_head_tail, xint8, w8a8, w8a8_dynamic, w4a8_dynamic, w8a16.",
       {}, kQuantizing, kEverywhere,
       [](const FlagDef&, Values values, JobRequest& request) { return ApplyConfig(values[0], request); }},
      {"scheme", kValue, "NAME", kScheme, "by device: vint8 on ve2, W8-A8 on xnnpack-* and ethos-u-*",
       "Number formats. On xnnpack and ethos-u take W8-A8 first (the most tested), W8-A8_dynamic when ranges change from input to input, W4-A8_dynamic for the smallest weights.",
       {"vint8", "bf16", "fp16", "vint8+bf16", "vint8+fp16", "xint8", "W8-A8", "W8-A8_dynamic", "W4-A8_dynamic", "W8-A16"},
       kQuantizing, kEverywhere, GQ_SPEC_TEXT(scheme)},
      {"mode", kValue, "MODE", kScheme, "full",
       "full: optimize, quantize, evaluate, compile. dry-run: compare precisions, change nothing. requantize: strip an existing quantization first.",
       {"full", "dry-run", "requantize"}, kVerbRun, kClientOnly, ApplyMode},
      {"calibration-method", kValue, "METHOD", kScheme, "by scheme",
       "How activation ranges are found: minmax, nonoverflow, minmse, percentile[:P], entropy, layerwise-percentile, moving-average.",
       {}, kQuantizing, kEverywhere, ApplyMethod},
      {"compat", kValue, "NAME", kScheme, "off", "quark: Quark's exact behaviour, faults included.",
       {"quark"}, kQuantizing, kEverywhere, GQ_SPEC_TEXT(compat)},
      {"exclude", kComma, "NAMES", kScheme, "none", "Nodes that are not quantized, separated by commas.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_TEXTS(exclude)},
      {"allow-unmatched", kSwitch, "", kScheme, "off", "Names and patterns that match no node are a warning instead of an error.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_SWITCH(allow_unmatched)},
      {"fp-nodes", kComma, "NAMES", kScheme, "none", "Nodes kept in --fp-precision.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_TEXTS(fp_nodes)},
      {"fp-op-types", kComma, "TYPES", kScheme, "none", "Operator types kept in --fp-precision.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_TEXTS(fp_op_types)},
      {"fp-precision", kValue, "NAME", kScheme, "bf16", "Precision of --fp-nodes and --fp-op-types.",
       {"bf16", "fp16"}, kQuantizing, kEverywhere, GQ_SPEC_TEXT(fp_precision)},
      {"mixed-form", kValue, "FORM", kScheme, "float", "How mixed models are written.",
       {"float", "cast"}, kQuantizing, kEverywhere, GQ_SPEC_TEXT(mixed_form)},
      {"edge-quant", kValue, "WHERE", kScheme, "none", "Quantized inputs or outputs; changes the runtime contract, so it needs consent.",
       {"none", "input", "output", "both", "auto"}, kVerbRun | kVerbQuantize | kVerbCompile, kEverywhere, GQ_SPEC_TEXT(edge_quant)},
      {"head", kValue, "N", kScheme, "1", "Compute layers in the head of vint8_bf16_head_tail.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_INTEGER(head, 0, kMaxCount)},
      {"tail", kValue, "N", kScheme, "1", "Compute layers in its tail.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_INTEGER(tail, 0, kMaxCount)},
      {"recover", kComma, "LIST", kScheme, "by strategy", "Accuracy recovery passes: none, auto, or names.",
       {}, kQuantizing, kEverywhere,
       [](const FlagDef&, Values values, JobRequest& request) {
         request.spec.set_recover(base::StrJoin(values, ","));
         return absl::OkStatus();
       }},
      {"engine", kValue, "NAME", kScheme, "native", "Quantizer: the built-in one, or an installed AMD Quark.",
       {"native", "quark"}, kQuantizing, kEverywhere, GQ_SPEC_TEXT(engine)},
      {"plugin", kRepeat, "NAME", kScheme, "none", "A plugin that the server offers; needs consent.",
       {}, kQuantizing, kEverywhere, GQ_SPEC_TEXTS(plugin)},

      {"target-accuracy", kRepeat, "EXPR", kGoal, "by task type",
       "Goal, METRIC OP NUMBER[%] with a metric of psnr passrate cosine mse mae max_abs top1 top5 snr, like \"psnr>30\" or \"top1>=fp32-1%\"; may be repeated, all must hold.",
       {}, kWithData, kEverywhere, ApplyTargetAccuracy},
      {"task", kValue, "TYPE", kGoal, "detected", "Task type; decides the default goal.",
       {"classification", "detection", "segmentation", "regression"}, kWithData | kVerbAnalyze, kEverywhere, GQ_SPEC_TEXT(task)},
      {"atol", kValue, "X", kGoal, "0.015", "Absolute tolerance of the pass rate.",
       {}, kWithData, kEverywhere, GQ_SPEC_TOLERANCE(atol)},
      {"rtol", kValue, "X", kGoal, "0.01", "Relative tolerance of the pass rate.",
       {}, kWithData, kEverywhere, GQ_SPEC_TOLERANCE(rtol)},
      {"explore", kSwitch, "", kGoal, "off", "Search for a mixed-precision assignment that meets the goal.",
       {}, kVerbRun, kClientOnly, GQ_SPEC_SWITCH(explore)},
      {"explore-strategy", kValue, "NAME", kGoal, "greedy", "greedy (the documented one) or sensitivity (faster and better).",
       {"greedy", "sensitivity"}, kVerbRun | kVerbExplore, kEverywhere, GQ_SPEC_TEXT(explore_strategy)},
      {"explore-limit", kRepeat, "KEY=VALUE", kGoal, "none", "Limit of the search: max_share=0.3, max_iterations=50, time_budget=10m, pass_rate, min_gain_db, patience, precision, keep, forbid; may be repeated.",
       {}, kVerbRun | kVerbExplore, kEverywhere, GQ_SPEC_CHECKED_TEXTS(explore_limit, CheckKeyValue)},
      {"target-performance", kRepeat, "EXPR", kGoal, "none",
       "Goal, METRIC OP NUMBER[UNIT], like \"latency_p50<5ms\": latency_p50 latency_p99 throughput (on a board, --stage exec), offload partitions (of a compile), model_size bf16_share (always); may be repeated, all must hold.",
       {}, kVerbRun | kVerbQuantize | kVerbRequantize | kVerbExplore, kEverywhere, GQ_SPEC_CHECKED_TEXTS(target_performance, CheckPerformance)},

      {"device", kValue, "NAME", kTarget, "ve2 where the scheme is legal there, else the first device that takes it",
       "ve2, ve2-xc2ve3858, ve2-xc2ve3558, ve2-xc2ve3358, or one that the lab registered ('gq boards list').",
       {}, kAll, kEverywhere, GQ_SPEC_TEXT(device)},
      {"stage", kValue, "STAGE", kTarget, "compile", "How far the job goes: quantize (ends after Evaluate), compile, exec (runs on a board).",
       {"quantize", "compile", "exec"}, kVerbRun, kClientOnly, ApplyStage},
      {"compiler-option", kRepeat, "KEY=VALUE", kTarget, "by classification",
       "Overrides one compiler option: dp_size, tp_size, optimize_level, threshold_gops_percent, keep_outputs, preferred_data_storage, logging_level, fe_args+.",
       {}, kCompiling, kEverywhere, GQ_SPEC_CHECKED_TEXTS(compiler_option, CheckKeyValue)},
      {"show-options", kSwitch, "", kTarget, "off", "Only print class, compiler options and vitisai_config.json; compile nothing.",
       {}, kVerbCompile, kClientOnly, GQ_LOCAL_SWITCH(show_options)},
      {"compiled", kValue, "DIR", kTarget, "none", "Instead of a model: report what a finished compile left in this folder.",
       {}, kVerbAnalyze, kEverywhere, GQ_LOCAL_TEXT(compiled)},
      {"offload-goal", kValue, "GOAL", kTarget, "best", "none: one compile; best: compiler options are tried; full: the quantization may change too.",
       {"none", "best", "full"}, kCompiling, kClientOnly, GQ_SPEC_TEXT(offload_goal)},
      {"compile-rounds", kValue, "N", kTarget, "4", "Bound on the number of compiles.",
       {}, kCompiling, kClientOnly, GQ_SPEC_INTEGER(compile_rounds, 1, 100)},
      {"exec-if", kValue, "COND", kTarget, "always", "Run on the board only if: always, full-offload, offload>=98%.",
       {}, kVerbRun, kClientOnly, GQ_SPEC_TEXT(exec_if)},
      {"activation-script", kValue, "PATH", kTarget, "the agent's own", "Activation script of the vendor environment, a path on the agent's host.",
       {}, kOnBoard | kVerbQuantize, kEverywhere, GQ_SPEC_TEXT(activation_script)},
      {"board", kValue, "NAME", kTarget, "any that fits", "Use this board.",
       {}, kOnBoard, kClientOnly, GQ_SPEC_TEXT(board)},
      {"tag", kRepeat, "TAG", kTarget, "none", "Use a board with this tag; may be repeated.",
       {}, kOnBoard, kClientOnly, GQ_SPEC_TEXTS(tag)},
      {"wait-for-board", kSwitch, "", kTarget, "off", "Queue the job even when no registered board could run it.",
       {}, kOnBoard, kClientOnly, GQ_SPEC_SWITCH(wait_for_board)},

      {"name", kValue, "TEXT", kQueue, "none", "Name of the job, for people.",
       {}, kAll, kClientOnly, GQ_SPEC_TEXT(name)},
      {"label", kRepeat, "KEY=VALUE", kQueue, "none", "Label of the job, for filters.",
       {}, kAll, kClientOnly, ApplyLabels},
      {"note", kValue, "TEXT", kQueue, "none", "Reason for the request, kept in ledger and report.",
       {}, kAll, kClientOnly, GQ_SPEC_TEXT(note)},
      {"priority", kValue, "N", kQueue, "0", "From -100 (last) to 100 (first).",
       {}, kAll, kClientOnly, GQ_SPEC_INTEGER(priority, -100, 100)},
      {"queue-timeout", kValue, "TIME", kQueue, "none", "End the job when a step waits longer, like 30m; never ends a running step.",
       {}, kAll, kClientOnly, GQ_SPEC_DURATION(queue_timeout)},
      {"run-timeout", kValue, "TIME", kQueue, "the server's limit", "End the job when a step runs longer, like 2h.",
       {}, kAll, kClientOnly, GQ_SPEC_DURATION(run_timeout)},
      {"visibility", kValue, "WHO", kQueue, "private", "Who may see the job.",
       {"private", "team"}, kAll, kClientOnly, GQ_SPEC_TEXT(visibility)},
      {"threads", kValue, "N", kQueue, "the worker's share", "Threads of a step on the CPU.",
       {}, kAll, kEverywhere, GQ_SPEC_INTEGER(threads, 1, 4096)},

      {"work-dir", kValue, "PATH", kShow, "./gq-runs", "Results land in PATH/<job id>/.",
       {}, kAll, kClientOnly, GQ_LOCAL_TEXT(work_dir)},
      {"detach", kSwitch, "", kShow, "off", "Submit and print the job's id; do not follow it.",
       {}, kAll, kClientOnly, GQ_LOCAL_SWITCH(detach)},
      {"local", kSwitch, "", kShow, "off", "Start a private server, worker and simulated board for this command.",
       {}, kAll, kClientOnly, GQ_LOCAL_SWITCH(local)},
      {"server", kValue, "ADDRESS", kShow, "GQ_SERVER, the context, or the local socket", "Server: HOST:PORT or unix:PATH.",
       {}, kAll, kClientOnly, GQ_LOCAL_TEXT(server)},
      {"yes", kSwitch, "", kShow, "off", "Do not ask; consent to changes of the runtime contract.",
       {}, kAll, kEverywhere, ApplyYes},
      {"json", kSwitch, "", kShow, "off", "One JSON object a line instead of text.",
       {}, kAll, kEverywhere, GQ_LOCAL_SWITCH(json)},
      {"quiet", kSwitch, "", kShow, "off", "Of a step's messages, show warnings and errors only.",
       {}, kAll, kEverywhere, GQ_LOCAL_SWITCH(quiet)},
      {"verbose", kSwitch, "", kShow, "off", "Show DEBUG lines too.",
       {}, kAll, kEverywhere, GQ_LOCAL_SWITCH(verbose)},
      {"no-color", kSwitch, "", kShow, "off", "No colours on a terminal (NO_COLOR does the same).",
       {}, kAll, kEverywhere, GQ_LOCAL_SWITCH(no_color)},
      {"utc", kSwitch, "", kShow, "off", "Show times in UTC instead of local time.",
       {}, kAll, kEverywhere, GQ_LOCAL_SWITCH(utc)},
      // clang-format on
  };
}

// One line each: deleting the line makes the flag or value available.
constexpr std::array<std::string_view, 0> kUnavailable = {};

}  // namespace

const std::vector<FlagDef>& AllFlags() {
  static const auto& table = *new std::vector<FlagDef>(MakeTable());
  return table;
}

std::span<const std::string_view> UnavailableFlags() { return kUnavailable; }

}  // namespace gq::job
