#include "board_agent/board_step.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "board_agent/latency_figures.h"
#include "board_agent/performance_verdict.h"
#include "board_agent/step_options.h"
#include "common/accuracy/output_metrics.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "common/runtime/session.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr char kComponent[] = "Run";
// Integer kernels of a board and the CPU reference differ a little; below this they compute
// different things.
constexpr double kWrongCosine = 0.9;
constexpr double kDoubtfulCosine = 0.99;

// One model on the board.
struct Measured {
  BoardRun run;
  LatencyFigures latency;
  std::vector<std::string> output_names;
  std::string model_class;

  int runs() const {
    return run.mean_of > 0 ? run.mean_of : static_cast<int>(run.samples_ms.size());
  }
};

Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// A single figure has no distribution.
Json LatencyJson(const Measured& m) {
  const LatencyFigures& f = m.latency;
  if (m.run.mean_of > 0) return {{"mean", f.mean}};
  if (m.run.samples_ms.size() == 1) return {{"p50", f.p50}, {"mean", f.mean}};
  return {{"p50", f.p50},     {"p90", f.p90}, {"p99", f.p99}, {"mean", f.mean},
          {"stdev", f.stdev}, {"min", f.min}, {"max", f.max}};
}

// Of this process and the tools that it ran, whichever was larger.
int64_t PeakMemory() {
  int64_t peak = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    struct rusage usage;
    if (::getrusage(who, &usage) == 0) peak = std::max<int64_t>(peak, usage.ru_maxrss);
  }
  return peak * 1024;
}

class BoardStep {
 public:
  BoardStep(const rpc::StepContext& context, const BoardSpec& board, const Backend& backend)
      : context_(context), board_(board), backend_(backend), spec_(context.lease.spec()) {}

  absl::StatusOr<gq::v1::StepResult> Run() {
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    const std::vector<std::string> reports(context_.lease.earlier_reports().begin(),
                                           context_.lease.earlier_reports().end());
    GQ_ASSIGN_OR_RETURN(const std::string why_not, WhyNotRun(spec_.exec_if(), reports));
    if (!why_not.empty()) {
      result.set_skip_reason(why_not);
      return result;
    }
    GQ_ASSIGN_OR_RETURN(probe_, backend_.ProbeBoard(board_));
    fs::path model;
    if (const auto quantized = context_.files.artifact("model_quantized.onnx")) {
      model = *quantized;
    } else {
      GQ_ASSIGN_OR_RETURN(model, PinnedModel(spec_, context_.files.model(),
                                             context_.files.work_dir() / "tmp" / "pinned"));
    }
    GQ_RETURN_IF_ERROR(ReadSample(model));
    GQ_ASSIGN_OR_RETURN(const Measured measured, Measure(model, "the model", "compile"));
    Json report = Describe(measured);
    GQ_RETURN_IF_ERROR(CompareWithCpu(model, measured, report));
    GQ_RETURN_IF_ERROR(CompareWithFloat(measured, report));
    report["warnings"] = warnings_;
    result.set_report_json(report.dump(-1, ' ', false, Json::error_handler_t::replace));
    JudgeTargets(context_, {job::MeasuredBy::kBoardRun}, result);
    return result;
  }

 private:
  absl::Status ReadSample(const fs::path& path) {
    GQ_ASSIGN_OR_RETURN(const graph::Model model, graph::LoadModel(path));
    GQ_ASSIGN_OR_RETURN(const std::vector<runtime::InputSpec> inputs, runtime::InputSpecs(model));
    for (const runtime::InputSpec& input : inputs) {
      input_names_.push_back(input.name);
      input_text_.push_back(StrCat(input.name, " ", runtime::Describe(input.dtype, input.shape)));
    }
    runtime::DataSetOptions options;
    options.num_samples = 1;
    options.seed = static_cast<uint64_t>(spec_.has_seed() ? spec_.seed() : 42);
    options.allow_nonfinite = spec_.allow_nonfinite();
    std::vector<fs::path> files = context_.files.evaluation();
    source_ = "evaluation";
    if (files.empty()) {
      files = context_.files.calibration();
      source_ = "calibration";
    }
    absl::StatusOr<std::unique_ptr<runtime::DataSet>> data =
        files.empty() ? runtime::DataSet::Random(inputs, options)
                      : runtime::DataSet::Open(files, inputs, options);
    if (files.empty()) source_ = "random";
    if (!data.ok()) return data.status();
    return (*data)->Read(0, &sample_).status();
  }

  // The folder that a compile left among the results of earlier steps; empty when there is none.
  fs::path CompiledFolder(std::string_view name) const {
    const fs::path folder = context_.files.work_dir() / "in/artifacts" / name;
    std::error_code error;
    return fs::is_directory(folder / CompileKey(spec_), error) ? folder : fs::path();
  }

  absl::StatusOr<Measured> Measure(const fs::path& path, std::string_view what,
                                   std::string_view compiled) {
    GQ_ASSIGN_OR_RETURN(const graph::Model model, graph::LoadModel(path));
    const compile::Classification classification =
        compile::Classify(graph::Analyze(model), FloatFormOf(spec_));
    compile::CompilerOptions options;
    if (probe_.vaiml) {
      GQ_ASSIGN_OR_RETURN(options, OptionsFor(spec_, board_, classification));
    }
    context_.reporter.Info(kComponent, StrCat("Running ", what, " on ", board_.name, Simulated()));
    Measured measured;
    for (const onnx::ValueInfoProto& output : model.graph().output()) {
      measured.output_names.push_back(output.name());
    }
    const fs::path scratch = context_.files.work_dir() / "tmp" / StrCat("run_", ++scratches_);
    GQ_RETURN_IF_ERROR(base::MakeFolder(scratch));
    RunRequest request{.board = board_,
                       .model = path,
                       .classification = classification,
                       .options = options,
                       .inputs = sample_,
                       .input_names = input_names_,
                       .output_names = measured.output_names,
                       .scratch = scratch,
                       .activation_script = spec_.activation_script(),
                       .try_number = context_.lease.try_number()};
    request.compiled = CompiledFolder(compiled);
    request.key = CompileKey(spec_);
    GQ_ASSIGN_OR_RETURN(measured.run, backend_.Run(request, context_.reporter));
    if (measured.run.samples_ms.empty()) {
      return MakeError(Reason::kBoardFailed, StrCat(board_.name, " gave no figures"));
    }
    measured.latency = FiguresOf(measured.run.samples_ms);
    measured.model_class = std::string(compile::ModelClassName(classification.model_class));
    const LatencyFigures& f = measured.latency;
    std::string text = absl::StrFormat("Latency p50 %.3f ms, p90 %.3f ms, p99 %.3f ms (%d runs)",
                                       f.p50, f.p90, f.p99, measured.runs());
    if (measured.run.samples_ms.size() == 1) {
      text = absl::StrFormat("Latency %.3f ms", f.p50);
      if (measured.run.mean_of > 0) text += absl::StrFormat(" (mean of %d runs)", measured.runs());
      if (probe_.simulated) text += " by the roofline model (simulated)";
    }
    context_.reporter.Info(kComponent, text);
    if (!measured.run.fell_back.empty()) {
      Warn(StrCat(what, " did not run on the NPU: ", measured.run.fell_back,
                  "; its latency is that of a CPU"));
    }
    return measured;
  }

  Json Describe(const Measured& m) {
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
      report["conditions_text"] = StrCat(report["conditions_text"].get<std::string>(),
                                         ", not on the NPU: ", m.run.fell_back);
    }
    if (!probe_.simulated) report["peak_memory_bytes"] = PeakMemory();
    report["seconds"] = {{"waiting", m.run.waiting_seconds},
                         {"transfer", m.run.transfer_seconds},
                         {"setup", m.run.setup_seconds},
                         {"inference", m.latency.mean * m.runs() / 1e3}};
    return report;
  }

  // A board that computes wrong must be noticed.
  absl::Status CompareWithCpu(const fs::path& path, const Measured& m, Json& report) {
    runtime::SessionOptions options;
    options.optimization = runtime::OptimizationLevel::kBasic;
    GQ_ASSIGN_OR_RETURN(const runtime::Session session,
                        runtime::Session::CreateFromFile(path, options));
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
                                   {"cosine", Number(f.cosine)},
                                   {"psnr_db", Number(f.psnr_db)},
                                   {"max_abs", Number(f.max_abs)}});
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

  absl::Status CompareWithFloat(const Measured& m, Json& report) {
    const std::optional<fs::path> path = context_.files.artifact("model_float.onnx");
    if (!path) return absl::OkStatus();
    if (probe_.runs_compiled && CompiledFolder(kFloatCompile).empty()) {
      report["speedup_missing"] = "the float model was not compiled for the board";
      return absl::OkStatus();
    }
    GQ_ASSIGN_OR_RETURN(const Measured base, Measure(*path, "the float model", kFloatCompile));
    const double speedup = m.latency.p50 > 0 ? base.latency.p50 / m.latency.p50 : 0;
    report["float_model"] = {{"latency_ms", LatencyJson(base)},
                             {"runs", base.runs()},
                             {"precision", probe_.vaiml ? "bf16 (fp16 where asked)" : "fp32"}};
    report["speedup"] = speedup;
    context_.reporter.Info(
        kComponent, absl::StrFormat("Speed-up over the float model %.2f", speedup) + Simulated());
    if (speedup < 1) Warn("the quantized model is slower than the float model on this board");
    return absl::OkStatus();
  }

  std::string Simulated() const { return probe_.simulated ? " (simulated)" : ""; }

  void Warn(std::string text) {
    context_.reporter.Warn(kComponent, text);
    warnings_.push_back(std::move(text));
  }

  const rpc::StepContext& context_;
  const BoardSpec& board_;
  const Backend& backend_;
  const gq::v1::JobSpec& spec_;
  Probe probe_;
  std::vector<runtime::Tensor> sample_;
  std::vector<std::string> input_names_;
  std::vector<std::string> input_text_;
  std::string source_;
  int scratches_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace

absl::StatusOr<std::string> WhyNotRun(std::string_view condition,
                                      const std::vector<std::string>& reports) {
  constexpr std::string_view kOffload = "offload>=";
  double wanted = 0;
  if (condition.empty() || condition == "always") return "";
  if (condition == "full-offload") {
    wanted = 100;
  } else {
    std::string_view number = condition;
    if (number.starts_with(kOffload)) number.remove_prefix(kOffload.size());
    if (number.ends_with('%')) number.remove_suffix(1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), wanted);
    if (!condition.starts_with(kOffload) || error != std::errc() ||
        end != number.data() + number.size() || !(wanted >= 0 && wanted <= 100)) {
      return MakeError(Reason::kInvalidFlag,
                       StrCat("'", condition, "' is no condition for Board Run"),
                       "Give always, full-offload, or offload>=98%.");
    }
  }
  for (const std::string& text : reports) {
    const Json report = Json::parse(text, nullptr, false);
    if (!report.is_object() || !report.contains("offload")) continue;
    const Json& offload = report["offload"];
    if (!offload.contains("gops_percent")) continue;
    const double percent = offload["gops_percent"].get<double>();
    const bool one_part =
        condition != "full-offload" || report.value("/partitions/npu"_json_pointer, 0) == 1;
    if (percent >= wanted && one_part) return "";
    return absl::StrFormat("%.3f %% of the operations are offloaded, --exec-if asks for %s",
                           percent, std::string(condition));
  }
  return StrCat("it is not known how much is offloaded, --exec-if asks for ", condition);
}

absl::StatusOr<gq::v1::StepResult> RunBoardStep(const rpc::StepContext& context,
                                                const BoardSpec& board, const Backend& backend) {
  return BoardStep(context, board, backend).Run();
}

}  // namespace gq::agent
