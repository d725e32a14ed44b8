#include "common/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/calibrate/observe_operator.h"
#include "common/calibrate/tapped_graph.h"
#include "common/graph/graph_index.h"
#include "common/runtime/session.h"

namespace gq::calibrate {
namespace {

using base::MakeError;
using base::Reason;

constexpr std::string_view kComponent = "Calibrate";
constexpr int kMostThreads = 4;

// True when a constant of the model is infinite or so large that a sum may become it, as in masks
// of attention: infinite activations then come from the model, not from the data.
bool HasInfiniteConstants(const graph::Model& model) {
  constexpr float kMaskLike = 1e37f;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.data_type() != onnx::TensorProto::FLOAT) continue;
    const auto data = model.Data(tensor);
    if (!data.ok()) continue;
    for (const float value : data->As<float>()) {
      if (std::fabs(value) > kMaskLike) return true;
    }
  }
  return false;
}

NonFinitePolicy PolicyOf(const graph::Model& model, const CalibrateOptions& options) {
  if (options.quark_compatible) return NonFinitePolicy::kReplace;
  return HasInfiniteConstants(model) ? NonFinitePolicy::kIgnoreInfinity : NonFinitePolicy::kReport;
}

class Calibration {
 public:
  Calibration(const graph::Model& model, std::span<const TensorRequest> tensors,
              std::span<const MethodSpec> methods, runtime::DataSet& data,
              const CalibrateOptions& options, base::Reporter& reporter)
      : model_(model),
        tensors_(tensors),
        plan_(ObservationPlan::For(methods, options.quark_compatible)),
        data_(data),
        options_(options),
        reporter_(reporter) {}

  absl::StatusOr<CalibrationTable> Run();

 private:
  absl::Status Prepare();
  // All samples but the skipped ones. Samples with values that are not finite go to `bad`.
  absl::Status RunPass(Pass pass, std::set<int64_t>* bad);
  absl::Status RunSample(int64_t index, std::set<int64_t>* bad);
  absl::StatusOr<CalibrationTable> MakeTable();

  const graph::Model& model_;
  std::span<const TensorRequest> tensors_;
  ObservationPlan plan_;
  runtime::DataSet& data_;
  CalibrateOptions options_;
  base::Reporter& reporter_;

  std::unique_ptr<ObserverSet> observers_;
  std::unique_ptr<runtime::FloatOperators> operators_;
  TappedGraph observed_;
  std::unique_ptr<runtime::Session> session_;
  std::set<int64_t> skipped_;
  std::vector<runtime::Tensor> sample_;
  std::vector<runtime::Tensor> outputs_;
};

absl::Status Calibration::Prepare() {
  GQ_ASSIGN_OR_RETURN(const runtime::OrtLibrary* library, runtime::OrtLibrary::Get());
  const int threads = CalibrationThreads(options_);
  session_.reset();
  observers_ = std::make_unique<ObserverSet>(plan_, PolicyOf(model_, options_),
                                             static_cast<size_t>(threads));
  GQ_ASSIGN_OR_RETURN(operators_, runtime::FloatOperators::Create(
                                      *library, {ObserveOperator(*observers_)}, threads));
  std::map<std::string_view, Grid> grids;
  std::vector<std::string> names;
  for (const TensorRequest& request : tensors_) {
    names.push_back(request.name);
    grids.emplace(request.name, request.grid);
  }
  observed_ =
      InsertTaps(model_, names, {.op_type = kObserveOperator},
                 [&](const std::string& name) { return observers_->Add(name, grids.at(name)); });
  GQ_ASSIGN_OR_RETURN(runtime::Session session,
                      runtime::Session::Create(
                          observed_.model, {.optimization = options_.quark_compatible
                                                                ? runtime::OptimizationLevel::kNone
                                                                : runtime::OptimizationLevel::kAll,
                                            .threads = threads,
                                            .custom_op_domains = {operators_->domain()}}));
  session_ = std::make_unique<runtime::Session>(std::move(session));
  return absl::OkStatus();
}

absl::Status Calibration::RunSample(int64_t index, std::set<int64_t>* bad) {
  GQ_ASSIGN_OR_RETURN(const auto result, data_.Read(index, &sample_));
  if (result == runtime::DataSet::ReadResult::kSkipped) {
    if (skipped_.insert(index).second) {
      reporter_.Warn(kComponent, base::StrCat("left out: ", data_.skip_reason()));
    }
    return absl::OkStatus();
  }
  runtime::SerialLoop serial;
  observers_->StartSample();
  for (const auto& [input, number] : observed_.inputs) {
    observers_->Observe(number, sample_[input].As<float>(), serial);
  }
  GQ_RETURN_IF_ERROR(session_->Run(sample_, &outputs_));
  for (const auto& [output, number] : observed_.outputs) {
    observers_->Observe(number, outputs_[output].As<float>(), serial);
  }
  if (observers_->trouble().empty()) return absl::OkStatus();
  const std::string what = base::StrCat(observers_->trouble(), " in sample ", index);
  if (!options_.allow_nonfinite && !data_.allow_nonfinite()) {
    return MakeError(Reason::kDataNonfinite, what,
                     "Look at this sample and at the operators before this tensor, or leave such "
                     "samples out with --allow-nonfinite.");
  }
  if (bad->insert(index).second) {
    reporter_.Warn(kComponent, base::StrCat("left out: ", what));
  }
  return absl::OkStatus();
}

absl::Status Calibration::RunPass(Pass pass, std::set<int64_t>* bad) {
  observers_->StartPass(pass);
  for (int64_t index = 0; index < data_.size(); ++index) {
    if (reporter_.Cancelled()) return MakeError(Reason::kCancelled, "calibration was cancelled");
    if (!skipped_.contains(index)) {
      GQ_RETURN_IF_ERROR(RunSample(index, bad));
      // What was collected is of no use any more; the rest only tells which samples are bad too.
      if (!bad->empty()) observers_->StartPass(Pass::kDetect);
    }
    reporter_.Report(
        {.component = kComponent, .done = index + 1, .total = data_.size(), .unit = "samples"});
  }
  return absl::OkStatus();
}

absl::StatusOr<CalibrationTable> Calibration::MakeTable() {
  CalibrationTable table{.methods = plan_.methods,
                         .left_out = observed_.left_out,
                         .samples = data_.size() - static_cast<int64_t>(skipped_.size()),
                         .skipped = {skipped_.begin(), skipped_.end()},
                         .random_data = data_.random()};
  for (int64_t number = 0; number < observers_->size(); ++number) {
    const TensorObserver& observer = observers_->at(number);
    if (observer.empty()) {
      table.left_out.emplace(observer.name(), kWithoutElements);
    } else {
      table.tensors.emplace(observer.name(), observer.Finish());
    }
  }
  for (const std::string& tensor : observers_->mended()) {
    reporter_.Warn(kComponent, base::StrCat("tensor '", tensor,
                                            "' has values that are not finite; its range is that "
                                            "of the others"));
  }
  if (options_.want_digest) {
    GQ_ASSIGN_OR_RETURN(table.data_digest, data_.Digest());
  }
  return table;
}

absl::StatusOr<CalibrationTable> Calibration::Run() {
  std::set<int64_t> bad;
  do {
    skipped_.merge(bad);
    bad.clear();
    GQ_RETURN_IF_ERROR(Prepare());
    GQ_RETURN_IF_ERROR(RunPass(Pass::kStatistics, &bad));
  } while (!bad.empty());
  if (static_cast<int64_t>(skipped_.size()) >= data_.size()) {
    return MakeError(Reason::kDataEmpty, "no sample is left: all have NaN or infinite values",
                     "Check how the data was made.");
  }
  if (plan_.raw_errors) {
    GQ_RETURN_IF_ERROR(RunPass(Pass::kRawErrors, &bad));
  }
  return MakeTable();
}

}  // namespace

// Depends on the host alone where nothing is asked for: ONNX Runtime's results differ in the last
// bits between numbers of threads.
int CalibrationThreads(const CalibrateOptions& options) {
  if (options.quark_compatible) return 1;
  if (options.threads > 0) return options.threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

absl::StatusOr<CalibrationTable> Calibrate(const graph::Model& model,
                                           std::span<const TensorRequest> tensors,
                                           std::span<const MethodSpec> methods,
                                           runtime::DataSet& data, const CalibrateOptions& options,
                                           base::Reporter& reporter) {
  return Calibration(model, tensors, methods, data, options, reporter).Run();
}

std::vector<TensorRequest> ObservableTensors(const graph::Model& model, Grid grid) {
  const graph::GraphIndex index(model.graph());
  std::vector<TensorRequest> tensors;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && !index.IsInitializer(name) &&
        index.ElemType(name) == onnx::TensorProto::FLOAT) {
      tensors.push_back({.name = name, .grid = grid});
    }
  };
  for (const auto& input : model.graph().input()) add(input.name());
  for (const auto& node : model.graph().node()) {
    for (const auto& output : node.output()) add(output);
  }
  return tensors;
}

}  // namespace gq::calibrate
