#include "board_agent/board_measurement.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "board_agent/step_options.h"
#include "common/accuracy/evaluation_json.h"
#include "common/accuracy/output_metrics.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/compile_report.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/runtime/session.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using accuracy::JsonNumber;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr char kComponent[] = "Run";
// Integer kernels of a board and the CPU reference differ a little; below this they compute
// different things.
constexpr double kWrongCosine = 0.9;
constexpr double kDoubtfulCosine = 0.99;
// Samples of one call, and of a board that takes them one at a time.
constexpr int64_t kSamplesACall = 32;
constexpr int64_t kSlowSamples = 16;

// Of this process and the tools that it ran, whichever was larger.
int64_t PeakMemory() {
  int64_t peak = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    struct rusage usage;
    if (::getrusage(who, &usage) == 0) peak = std::max<int64_t>(peak, usage.ru_maxrss);
  }
  return peak * 1024;
}

std::string LatencyText(const Measured& m, bool simulated) {
  const LatencyFigures& f = m.latency;
  if (m.run.samples_ms.size() > 1) {
    return absl::StrFormat("Latency p50 %.3f ms, p90 %.3f ms, p99 %.3f ms (%d runs)", f.p50, f.p90,
                           f.p99, m.runs());
  }
  std::string text = absl::StrFormat("Latency %.3f ms", f.p50);
  if (m.run.mean_of > 0) text += absl::StrFormat(" (mean of %d runs)", m.runs());
  if (simulated) text += " by the roofline model (simulated)";
  return text;
}

}  // namespace

// What the board makes of the samples of the job, fetched some at a time. They are asked for in
// ascending order by one thread.
class BoardRunner : public accuracy::CandidateRunner {
 public:
  BoardRunner(BoardMeasurement& measurement, const BoardModel& model, const onnx::GraphProto& graph,
              const std::vector<std::string>& output_names, runtime::DataSet& data,
              std::vector<int64_t> samples, bool one_a_call)
      : measurement_(measurement),
        model_(model),
        output_names_(output_names),
        data_(data),
        samples_(std::move(samples)),
        one_a_call_(one_a_call) {
    for (const runtime::InputSpec& input : data.inputs()) {
      input_infos_.push_back({input.name, input.dtype, input.shape});
    }
    for (const onnx::ValueInfoProto& output : graph.output()) {
      runtime::TensorInfo& info = output_infos_.emplace_back();
      info.name = output.name();
      info.dtype = output.type().tensor_type().elem_type();
      for (const auto& dim : output.type().tensor_type().shape().dim()) {
        info.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
      }
    }
  }

  const std::vector<runtime::TensorInfo>& inputs() const override { return input_infos_; }
  const std::vector<runtime::TensorInfo>& outputs() const override { return output_infos_; }

  absl::Status Run(int64_t sample, std::span<const runtime::Tensor> /*inputs*/,
                   std::vector<runtime::Tensor>* outputs) override {
    GQ_ASSIGN_OR_RETURN(*outputs, Get(sample));
    if (outputs->size() == output_infos_.size()) return absl::OkStatus();
    return MakeError(Reason::kBoardFailed,
                     StrCat("the board gave ", outputs->size(), " outputs for sample ", sample,
                            ", expected ", output_infos_.size()));
  }

 private:
  absl::StatusOr<std::vector<runtime::Tensor>> Get(int64_t sample) {
    if (!outputs_.contains(sample)) GQ_RETURN_IF_ERROR(FetchFrom(sample));
    const auto found = outputs_.find(sample);
    if (found != outputs_.end()) return found->second;
    return MakeError(Reason::kBoardFailed, StrCat("the board gave no outputs for sample ", sample));
  }

  absl::Status FetchFrom(int64_t sample) {
    outputs_.clear();
    std::vector<int64_t> numbers;
    std::vector<std::vector<runtime::Tensor>> inputs;
    const size_t most = one_a_call_ ? 1 : kSamplesACall;
    const auto first = std::lower_bound(samples_.begin(), samples_.end(), sample);
    for (auto at = first; at != samples_.end() && inputs.size() < most; ++at) {
      std::vector<runtime::Tensor> values;
      GQ_ASSIGN_OR_RETURN(const auto read, data_.Read(*at, &values));
      if (read != runtime::DataSet::ReadResult::kSample) continue;
      numbers.push_back(*at);
      inputs.push_back(std::move(values));
    }
    if (inputs.empty()) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(RunRequest request, measurement_.Request(model_, output_names_, inputs[0],
                                                                 /*model_class=*/nullptr));
    request.more = std::span(inputs).subspan(1);
    request.warmup = 0;
    request.runs = 1;
    GQ_ASSIGN_OR_RETURN(BoardRun run,
                        measurement_.backend_.Run(request, measurement_.context_.reporter));
    outputs_[numbers[0]] = std::move(run.outputs);
    for (size_t i = 0; i < run.more_outputs.size() && i + 1 < numbers.size(); ++i) {
      outputs_[numbers[i + 1]] = std::move(run.more_outputs[i]);
    }
    // A harness that does not know of further samples is called for each.
    if (run.more_outputs.empty()) one_a_call_ = true;
    return absl::OkStatus();
  }

  BoardMeasurement& measurement_;
  const BoardModel& model_;
  const std::vector<std::string>& output_names_;
  runtime::DataSet& data_;
  const std::vector<int64_t> samples_;
  bool one_a_call_;
  std::vector<runtime::TensorInfo> input_infos_, output_infos_;
  std::map<int64_t, std::vector<runtime::Tensor>> outputs_;
};

Json LatencyJson(const Measured& m) {
  const LatencyFigures& f = m.latency;
  if (m.run.mean_of > 0) return {{"mean", f.mean}};
  if (m.run.samples_ms.size() == 1) return {{"p50", f.p50}, {"mean", f.mean}};
  return {{"p50", f.p50},     {"p90", f.p90}, {"p99", f.p99}, {"mean", f.mean},
          {"stdev", f.stdev}, {"min", f.min}, {"max", f.max}};
}

absl::Status BoardMeasurement::Open(const fs::path& path) {
  GQ_ASSIGN_OR_RETURN(probe_, backend_.ProbeBoard(board_));
  GQ_ASSIGN_OR_RETURN(const graph::Model model, graph::LoadModel(path));
  GQ_ASSIGN_OR_RETURN(inputs_, runtime::InputSpecs(model));
  for (const runtime::InputSpec& input : inputs_) {
    input_names_.push_back(input.name);
    input_text_.push_back(StrCat(input.name, " ", runtime::Describe(input.dtype, input.shape)));
  }
  source_ = "evaluation";
  GQ_ASSIGN_OR_RETURN(files_, context_.files.NamedEvaluation());
  if (files_.empty()) {
    source_ = "calibration";
    GQ_ASSIGN_OR_RETURN(files_, context_.files.NamedCalibration());
  }
  if (files_.empty()) source_ = "random";
  GQ_ASSIGN_OR_RETURN(const auto data, OpenData());
  return data->Read(0, &sample_).status();
}

absl::StatusOr<std::unique_ptr<runtime::DataSet>> BoardMeasurement::OpenData() const {
  const gq::v1::JobSpec& spec = context_.lease.spec();
  runtime::DataSetOptions options;
  options.num_samples = spec.num_samples();
  options.seed = static_cast<uint64_t>(spec.has_seed() ? spec.seed() : 42);
  options.allow_nonfinite = spec.allow_nonfinite();
  if (files_.empty()) return runtime::DataSet::Random(inputs_, options);
  return runtime::DataSet::Open(files_, inputs_, options);
}

absl::StatusOr<RunRequest> BoardMeasurement::Request(const BoardModel& model,
                                                     const std::vector<std::string>& output_names,
                                                     const std::vector<runtime::Tensor>& inputs,
                                                     std::string* model_class) {
  const gq::v1::JobSpec& spec = context_.lease.spec();
  GQ_ASSIGN_OR_RETURN(const graph::Model loaded, graph::LoadModel(model.path));
  const compile::Classification classification =
      compile::Classify(graph::Analyze(loaded), FloatFormOf(spec));
  if (model_class != nullptr) *model_class = compile::ModelClassName(classification.model_class);
  compile::CompilerOptions options;
  if (const auto kept = compile::OptionsOfReport(model.compile_part)) {
    options = *kept;
  } else if (probe_.vaiml) {
    GQ_ASSIGN_OR_RETURN(options, OptionsFor(spec, board_, classification));
  }
  const fs::path scratch = context_.files.work_dir() / "tmp" / StrCat("run_", ++scratches_);
  GQ_RETURN_IF_ERROR(base::MakeFolder(scratch));
  return RunRequest{.board = board_,
                    .model = model.path,
                    .classification = classification,
                    .options = options,
                    .inputs = inputs,
                    .input_names = input_names_,
                    .output_names = output_names,
                    .scratch = scratch,
                    .compiled = model.compiled,
                    .key = CompileKey(spec),
                    .activation_script = spec.activation_script(),
                    .try_number = context_.lease.try_number()};
}

absl::StatusOr<Measured> BoardMeasurement::Measure(const BoardModel& model) {
  Measured measured;
  GQ_ASSIGN_OR_RETURN(const graph::Model loaded, graph::LoadModel(model.path));
  for (const onnx::ValueInfoProto& output : loaded.graph().output()) {
    measured.output_names.push_back(output.name());
  }
  GQ_ASSIGN_OR_RETURN(const RunRequest request,
                      Request(model, measured.output_names, sample_, &measured.model_class));
  context_.reporter.Info(kComponent,
                         StrCat("Running ", model.what, " on ", board_.name, Simulated()));
  GQ_ASSIGN_OR_RETURN(measured.run, backend_.Run(request, context_.reporter));
  if (measured.run.samples_ms.empty()) {
    return MakeError(Reason::kBoardFailed, StrCat(board_.name, " gave no figures"));
  }
  measured.latency = FiguresOf(measured.run.samples_ms);
  context_.reporter.Info(kComponent, LatencyText(measured, probe_.simulated));
  if (!measured.run.fell_back.empty()) {
    Warn(StrCat(model.what, " did not run on the NPU: ", measured.run.fell_back,
                "; its latency is that of a CPU"));
  }
  return measured;
}

Json BoardMeasurement::Describe(const Measured& m) const {
  Json report = {{"simulated", probe_.simulated},
                 {"backend", backend_.name()},
                 {"device", board_.device},
                 {"board", board_.name}};
  report["latency_ms"] = LatencyJson(m);
  report["throughput_per_second"] = m.latency.mean > 0 ? 1000 / m.latency.mean : 0.0;
  report["runs"] = m.runs();
  if (m.run.mean_of == 0) report["samples_ms"] = m.run.samples_ms;
  report["on_npu"] = probe_.vaiml && m.run.fell_back.empty();
  if (!m.run.fell_back.empty()) report["fell_back"] = m.run.fell_back;
  Json conditions = Json::parse(m.run.conditions_json);
  conditions["class"] = m.model_class;
  conditions["inputs"] = input_text_;
  conditions["batch"] = 1;
  conditions["data"] = source_;
  report["conditions"] = conditions;
  report["conditions_text"] =
      StrCat(board_.name, " (", board_.device, "), ", m.model_class, ", batch 1, inputs ",
             base::StrJoin(input_text_, "; "), ", ", m.runs(),
             probe_.simulated ? " figure from a roofline model, no hardware" : " runs");
  if (!m.run.fell_back.empty()) {
    report["conditions_text"] =
        StrCat(report["conditions_text"].get<std::string>(), ", not on the NPU: ", m.run.fell_back);
  }
  if (!probe_.simulated) report["peak_memory_bytes"] = PeakMemory();
  report["seconds"] = {{"waiting", m.run.waiting_seconds},
                       {"transfer", m.run.transfer_seconds},
                       {"setup", m.run.setup_seconds},
                       {"inference", m.latency.mean * m.runs() / 1e3}};
  return report;
}

absl::Status BoardMeasurement::CompareWithCpu(const BoardModel& model, const Measured& m,
                                              Json& report) {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  GQ_ASSIGN_OR_RETURN(const runtime::Session session,
                      runtime::Session::CreateFromFile(model.path, options));
  std::vector<runtime::Tensor> expected;
  GQ_RETURN_IF_ERROR(session.Run(sample_, &expected));
  report["outputs"] = Json::array();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= m.run.outputs.size() || m.run.outputs[i].shape() != expected[i].shape()) {
      return MakeError(Reason::kBoardFailed,
                       StrCat("output ", m.output_names[i], " of the board has another shape"));
    }
    GQ_ASSIGN_OR_RETURN(const std::vector<float> reference, expected[i].View().ToFloats());
    GQ_ASSIGN_OR_RETURN(const std::vector<float> candidate, m.run.outputs[i].View().ToFloats());
    accuracy::OutputMetrics metrics({.expected_elements = expected[i].size()});
    metrics.AddSample(std::span<const float>(reference), std::span<const float>(candidate));
    const accuracy::OutputFigures f = metrics.Figures();
    report["outputs"].push_back({{"name", m.output_names[i]},
                                 {"cosine", JsonNumber(f.cosine)},
                                 {"psnr_db", JsonNumber(f.psnr_db)},
                                 {"max_abs", JsonNumber(f.max_abs)}});
    // Against zeros there is no angle.
    const bool one_is_zero =
        (f.min_candidate == 0 && f.max_candidate == 0) != (f.peak_reference == 0);
    const double likeness = one_is_zero ? 0 : f.cosine;
    const std::string text = absl::StrFormat("cosine %.4f", likeness);
    if (!(likeness >= kWrongCosine)) {
      return MakeError(Reason::kBoardFailed,
                       StrCat("output ", m.output_names[i],
                              " of the board differs from the CPU reference: ", text),
                       "Check the health of the board: gq boards health.");
    }
    if (likeness < kDoubtfulCosine) {
      Warn(StrCat("output ", m.output_names[i], " differs from the CPU reference: ", text));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<accuracy::Evaluation> BoardMeasurement::Evaluate(const BoardModel& model,
                                                                const Measured& measured,
                                                                accuracy::Baseline& reference,
                                                                accuracy::EvaluateOptions options) {
  GQ_ASSIGN_OR_RETURN(const graph::Model candidate, graph::LoadModel(model.path));
  GQ_ASSIGN_OR_RETURN(const auto data, OpenData());
  GQ_ASSIGN_OR_RETURN(const auto for_board, OpenData());
  const bool one_a_call = !backend_.TakesManySamples(board_);
  const int64_t most = one_a_call ? std::min(kSlowSamples, data->size()) : data->size();
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < most; ++i) samples.push_back(i * data->size() / most);
  BoardRunner runner(*this, model, candidate.graph(), measured.output_names, *for_board, samples,
                     one_a_call);
  options.only = std::move(samples);
  options.parallel_samples = 1;
  return accuracy::Evaluate(reference, candidate, runner, *data, options, context_.reporter);
}

void BoardMeasurement::Warn(std::string text) {
  context_.reporter.Warn(kComponent, text);
  warnings_.push_back(std::move(text));
}

}  // namespace gq::agent
