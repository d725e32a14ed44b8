#include "server/worker/steps/equivalence.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include "common/accuracy/output_comparer.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/session.h"

namespace gq::worker {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using runtime::Tensor;

// Reordered arithmetic through some hundred layers stays far above these.
constexpr double kLeastPsnr = 60;
constexpr double kLeastPsnrOfHalf = 30;

absl::StatusOr<std::vector<Tensor>> RunOnce(const graph::Model& model, const runtime::DataSet& data,
                                            std::span<const Tensor> sample,
                                            std::vector<runtime::TensorInfo>* outputs,
                                            double* seconds) {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.spinning = false;
  options.arena = false;
  GQ_ASSIGN_OR_RETURN(const runtime::Session session, runtime::Session::Create(model, options));
  std::vector<Tensor> inputs;
  for (const runtime::TensorInfo& input : session.inputs()) {
    for (size_t i = 0; i < data.inputs().size(); ++i) {
      if (data.inputs()[i].name == input.name) inputs.push_back(sample[i]);
    }
  }
  std::vector<Tensor> values;
  const auto start = std::chrono::steady_clock::now();
  GQ_RETURN_IF_ERROR(session.Run(inputs, &values));
  *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  *outputs = session.outputs();
  return values;
}

// The fault of the model, not of what was made of it.
absl::Status DoesNotRun(const absl::Status& status) {
  if (base::GetReason(status) != Reason::kRuntimeFailed) {
    return base::AddContext(status, "the model as it was given does not run");
  }
  return MakeError(
      Reason::kModelUnsupported,
      StrCat("the model as it was given does not run: ", base::FromAbsl(status.message())),
      "calibration computes the model with ONNX Runtime: check that it runs there on "
      "the same data; where an operator is missing, cut it off, or name an ONNX "
      "Runtime that has it with --onnxruntime");
}

absl::StatusOr<std::vector<Tensor>> FirstSample(runtime::DataSet& data) {
  for (int64_t i = 0; i < data.size(); ++i) {
    std::vector<Tensor> sample;
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(i, &sample));
    if (read == runtime::DataSet::ReadResult::kSample) return sample;
  }
  return MakeError(Reason::kDataEmpty, "every sample holds NaN or infinity",
                   "give samples with finite values");
}

}  // namespace

absl::StatusOr<Equivalence> CheckEquivalence(const graph::Model& user_model,
                                             const graph::Model& float_model,
                                             bool changed_precision, runtime::DataSet& data,
                                             base::Reporter& reporter) {
  GQ_ASSIGN_OR_RETURN(const std::vector<Tensor> sample, FirstSample(data));
  std::vector<runtime::TensorInfo> user_outputs, float_outputs;
  double seconds = 0;
  auto expected = RunOnce(user_model, data, sample, &user_outputs, &seconds);
  Equivalence result;
  auto found = RunOnce(float_model, data, sample, &float_outputs, &result.seconds);
  if (!expected.ok() && found.ok() && changed_precision) {
    reporter.Warn("Optimize",
                  StrCat("ONNX Runtime cannot compute the model in its own precision, so it is not "
                         "compared with its float32 form: ",
                         base::FromAbsl(expected.status().message())));
    return result;
  }
  if (!expected.ok()) return DoesNotRun(expected.status());
  if (!found.ok()) return base::AddContext(found.status(), "the optimized model does not run");

  const double least_psnr = changed_precision ? kLeastPsnrOfHalf : kLeastPsnr;
  result.psnr_db = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < user_outputs.size(); ++i) {
    const auto same = std::find_if(
        float_outputs.begin(), float_outputs.end(),
        [&](const runtime::TensorInfo& info) { return info.name == user_outputs[i].name; });
    if (same == float_outputs.end()) {
      return MakeError(Reason::kSanityCheckFailed,
                       StrCat("the optimized model lost the output '", user_outputs[i].name, "'"));
    }
    accuracy::OutputComparer comparer(user_outputs[i].name,
                                      {.samples = 1, .class_rule = accuracy::ClassRule::kNever});
    GQ_RETURN_IF_ERROR(
        comparer.AddSample((*expected)[i], (*found)[same - float_outputs.begin()], {}));
    const accuracy::OutputReport report = comparer.Report();
    if (!report.is_float) {
      if (report.figures.pass_rate < 100) {
        reporter.Warn("Optimize", StrCat("output '", report.name, "' (", report.dtype,
                                         ") of the optimized model is equal in only ",
                                         report.figures.pass_rate, " % of its elements"));
      }
      continue;
    }
    result.max_abs = std::max(result.max_abs, report.figures.max_abs);
    // All outputs near zero: nothing to relate the difference to.
    const bool tiny = report.figures.max_abs <= 1e-6;
    if (!tiny) result.psnr_db = std::min(result.psnr_db, report.figures.psnr_db);
    if (!tiny && report.figures.psnr_db < least_psnr) {
      char text[64];
      std::snprintf(text, sizeof text, "%.1f dB (largest difference %.3g)", report.figures.psnr_db,
                    report.figures.max_abs);
      return MakeError(Reason::kSanityCheckFailed,
                       StrCat("output '", report.name,
                              "' of the optimized model differs from the given model on the first "
                              "sample: ",
                              text),
                       "run with --verbose to see the passes that were applied");
    }
  }
  return result;
}

}  // namespace gq::worker
