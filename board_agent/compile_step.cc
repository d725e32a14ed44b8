#include "board_agent/compile_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "board_agent/compile_rounds.h"
#include "board_agent/finalists.h"
#include "board_agent/performance_verdict.h"
#include "board_agent/requantize.h"
#include "board_agent/step_options.h"
#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/compile/compile_output.h"
#include "common/compile/compile_report.h"
#include "common/compile/edge_quantization.h"
#include "common/compile/vaip_patch.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/job/exec_condition.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::LogLevel;
using base::MakeError;
using base::Reason;
using base::StrCat;
using compile::CompilerOptions;
using compile::PartitionReport;

using Json = nlohmann::ordered_json;

constexpr char kComponent[] = "Compile";
constexpr auto kReplace = Json::error_handler_t::replace;
constexpr char kQuantizedModel[] = "model_quantized.onnx";
constexpr int kDefaultRounds = 4;  // compiles, the first one included

// One compile and what became of it.
struct Outcome {
  CompilerOptions options;
  PartitionReport report;
  std::vector<std::pair<std::string, double>> seconds;
  int64_t kernels = 0;
};

class CompileStep {
 public:
  // `what` is compiled, a word for names of files.
  CompileStep(const rpc::StepContext& context, const BoardSpec& board, const Backend& backend,
              std::string what = "compile")
      : context_(context),
        board_(board),
        backend_(backend),
        spec_(context.lease.spec()),
        what_(std::move(what)) {}

  absl::StatusOr<gq::v1::StepResult> Run() {
    GQ_ASSIGN_OR_RETURN(probe_, backend_.ProbeBoard(board_));
    if (const std::string reason = WhyNoCompiler(); !reason.empty()) return LeaveOut(reason);
    if (const auto quantized = context_.files.artifact(kQuantizedModel)) {
      model_ = *quantized;
    } else {
      GQ_ASSIGN_OR_RETURN(model_, PinnedModel(spec_, context_.files.model(),
                                              context_.files.work_dir() / "tmp" / "pinned"));
    }
    if (!probe_.vaiml) return CompilePlain();
    GQ_RETURN_IF_ERROR(Analyze());
    GQ_ASSIGN_OR_RETURN(const CompilerOptions options, ChooseOptions());
    GQ_ASSIGN_OR_RETURN(const fs::path cache, context_.files.output("compile/x"));
    GQ_ASSIGN_OR_RETURN(Outcome outcome, CompileOnce(options, cache.parent_path()));
    if (spec_.edge_quant() == "auto") {
      GQ_RETURN_IF_ERROR(TryEdgeQuantization(cache.parent_path(), outcome));
    }
    if (spec_.offload_goal() != "none") {
      GQ_RETURN_IF_ERROR(TryOptions(cache.parent_path(), outcome));
    }
    if (spec_.offload_goal() == "full") {
      GQ_RETURN_IF_ERROR(TryQuantization(cache.parent_path(), outcome));
    }
    Json report = Describe(outcome);
    GQ_RETURN_IF_ERROR(CompileForTheRun(&outcome.options, report));
    return Finish(outcome, std::move(report));
  }

  // Another model of the job, compiled once: the part of the report about it. With `chosen`, these
  // options are used where the class is the same.
  absl::StatusOr<Json> CompileOther(const fs::path& model, const fs::path& cache,
                                    const CompilerOptions* chosen,
                                    compile::ModelClass chosen_class) {
    GQ_ASSIGN_OR_RETURN(probe_, backend_.ProbeBoard(board_));
    model_ = model;
    if (!probe_.vaiml) return CompileAsItIs(cache);
    GQ_RETURN_IF_ERROR(Analyze());
    GQ_ASSIGN_OR_RETURN(CompilerOptions options, ChooseOptions());
    const bool same = chosen != nullptr && chosen_class == classification_.model_class;
    if (same) options = *chosen;
    GQ_ASSIGN_OR_RETURN(const Outcome outcome, CompileOnce(options, cache));
    LogReport(outcome.report);
    return Describe(outcome);
  }

 private:
  // Why the board has no compiler; empty when it has one.
  std::string WhyNoCompiler() const {
    constexpr std::string_view kPrefix = "compile: ";
    for (const std::string& absent : probe_.absent) {
      if (absent.starts_with(kPrefix)) return absent.substr(kPrefix.size());
    }
    return "";
  }

  gq::v1::StepResult LeaveOut(const std::string& reason) {
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    result.set_skip_reason(reason);
    const Json report = {{"simulated", probe_.simulated},
                         {"backend", backend_.name()},
                         {"device", board_.device},
                         {"skipped", reason},
                         {"warnings", Json::array()}};
    result.set_report_json(report.dump());
    JudgeTargets(context_, {job::MeasuredBy::kQuantize, job::MeasuredBy::kCompile}, result);
    return result;
  }

  // A backend that takes the model as it is: no partitions, no options.
  absl::StatusOr<gq::v1::StepResult> CompilePlain() {
    for (const std::string& option : spec_.compiler_option()) {
      return MakeError(
          Reason::kInvalidFlag,
          StrCat("compiler option '", option, "': backend ", backend_.name(), " has none"),
          "Leave --compiler-option out for this device.");
    }
    GQ_ASSIGN_OR_RETURN(const fs::path cache, context_.files.output("compile/x"));
    GQ_ASSIGN_OR_RETURN(Json report, CompileAsItIs(cache.parent_path()));
    GQ_RETURN_IF_ERROR(CompileForTheRun(nullptr, report));
    report["warnings"] = warnings_;
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    result.set_report_json(report.dump(-1, ' ', false, Json::error_handler_t::replace));
    JudgeTargets(context_, {job::MeasuredBy::kQuantize, job::MeasuredBy::kCompile}, result);
    return result;
  }

  absl::StatusOr<Json> CompileAsItIs(const fs::path& cache) {
    GQ_ASSIGN_OR_RETURN(const fs::path scratch, Scratch());
    GQ_ASSIGN_OR_RETURN(const CompileRun run,
                        backend_.Compile(Request(model_, cache, {}, scratch), context_.reporter));
    Json report = {
        {"simulated", probe_.simulated}, {"backend", backend_.name()}, {"device", board_.device}};
    report["facts"] = Json::parse(run.facts_json);
    report.update(Json::parse(run.partition_json));
    report["seconds"] = Json::object();
    for (const auto& [phase, seconds] : run.seconds) report["seconds"][phase] = seconds;
    return report;
  }

  // A new folder for the backend's own files.
  absl::StatusOr<fs::path> Scratch() {
    fs::path folder = context_.files.work_dir() / "tmp" / StrCat(what_, "_", ++scratches_);
    GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
    return folder;
  }

  CompileRequest Request(const fs::path& model, const fs::path& cache,
                         const CompilerOptions& options, const fs::path& scratch) const {
    return {board_,
            model,
            CompileKey(spec_),
            cache,
            classification_,
            options,
            scratch,
            spec_.activation_script(),
            context_.lease.try_number()};
  }

  absl::Status Analyze() {
    GQ_ASSIGN_OR_RETURN(graph::Model model, graph::LoadModel(model_));
    classification_ = compile::Classify(graph::Analyze(model), FloatFormOf(spec_));
    boundary_ = compile::FindBoundaryQuantization(model.graph());
    context_.reporter.Info(
        kComponent, StrCat("Class ", compile::ModelClassName(classification_.model_class), ": ",
                           base::StrJoin(classification_.reasons, "; ")));
    return Patch(model);
  }

  // What the vendor's loader cannot read is put into the form that it can.
  absl::Status Patch(graph::Model& model) {
    const bool fp16 = classification_.float_form == compile::FloatForm::kFp16;
    GQ_ASSIGN_OR_RETURN(const compile::VaipPatch patch, compile::PatchForVaip(fp16, model));
    for (const std::string& warning : patch.warnings) Warn(warning);
    if (!patch.changed()) return absl::OkStatus();
    patch_ = patch.Describe();
    context_.reporter.Info(kComponent, StrCat("VAIP patch: ", *patch_));
    GQ_ASSIGN_OR_RETURN(const fs::path folder, Scratch());
    model_ = folder / StrCat(CompileKey(spec_), ".onnx");
    return graph::SaveModel(model, model_);
  }

  absl::StatusOr<CompilerOptions> ChooseOptions() {
    GQ_ASSIGN_OR_RETURN(CompilerOptions options, OptionsFor(spec_, board_, classification_));
    if (!spec_.edge_quant().empty() && spec_.edge_quant() != "none" && boundary_.empty()) {
      Warn("Edge quantization was asked for, but the model has no Q/DQ at its edges");
    } else if (spec_.edge_quant() != "auto") {
      GQ_ASSIGN_OR_RETURN(const compile::EdgeQuant edge,
                          compile::ParseEdgeQuant(spec_.edge_quant()));
      GQ_RETURN_IF_ERROR(compile::ApplyEdgeQuant(edge, spec_.consent(), options));
    }
    return options;
  }

  absl::StatusOr<Outcome> CompileOnce(const CompilerOptions& options, const fs::path& cache) {
    context_.reporter.Info(kComponent, StrCat("Compiling for ", options.device, Simulated(),
                                              " with backend ", backend_.name(), ", fe_args \"",
                                              base::StrJoin(options.fe_args, " "), "\""));
    ++compiles_;
    const std::string key = CompileKey(spec_);
    GQ_ASSIGN_OR_RETURN(const fs::path scratch, Scratch());
    GQ_ASSIGN_OR_RETURN(
        const CompileRun run,
        backend_.Compile(Request(model_, cache, options, scratch), context_.reporter));
    absl::StatusOr<fs::path> folder = compile::FindCompileFolder(cache, key);
    if (!folder.ok()) {
      return MakeError(Reason::kCompileFailed, "the compiler left nothing behind",
                       "See the log of the step.");
    }
    const compile::CompileOutput output = compile::ReadCompileOutput(*folder, key);
    GQ_RETURN_IF_ERROR(compile::CheckCompiled(output));
    Outcome outcome{options, compile::MakePartitionReport(output), run.seconds, 0};
    for (const auto& [kernel, count] : output.log.kernels) outcome.kernels += count;
    if (outcome.report.operators && outcome.report.operators_offloaded) {
      outcome.kernels += *outcome.report.operators - *outcome.report.operators_offloaded;
    }
    return outcome;
  }

  // Compiles once more with quantization at the edges in the runtime and keeps that when there are
  // fewer kernels and no new reason for the CPU.
  absl::Status TryEdgeQuantization(const fs::path& cache, Outcome& outcome) {
    if (boundary_.empty()) return absl::OkStatus();
    CompilerOptions options = outcome.options;
    GQ_RETURN_IF_ERROR(
        compile::ApplyEdgeQuant(compile::EdgeQuant::kBoth, spec_.consent(), options));
    const fs::path trial = context_.files.work_dir() / "tmp" / "edge";
    GQ_RETURN_IF_ERROR(base::MakeFolder(trial));
    GQ_ASSIGN_OR_RETURN(Outcome with_edge, CompileOnce(options, trial));
    std::set<std::string> known;
    for (const compile::CpuReason& reason : outcome.report.cpu_reasons)
      known.insert(reason.message);
    const bool new_reason = std::any_of(
        with_edge.report.cpu_reasons.begin(), with_edge.report.cpu_reasons.end(),
        [&](const compile::CpuReason& reason) { return !known.contains(reason.message); });
    const bool better = with_edge.kernels < outcome.kernels && !new_reason;
    context_.reporter.Info(
        kComponent, StrCat("Edge quantization ", better ? "kept" : "not kept", ": ",
                           outcome.kernels, " kernels without, ", with_edge.kernels, " with it"));
    if (!better) return absl::OkStatus();
    outcome = std::move(with_edge);
    return Replace(cache, trial);
  }

  // Other options, round by round, as long as the offload is not full and something is gained.
  absl::Status TryOptions(const fs::path& cache, Outcome& outcome) {
    std::set<std::string> fixed;
    for (const std::string& text : spec_.compiler_option()) {
      fixed.insert(text.substr(0, text.find_first_of("+=")));
    }
    // The types of inputs and outputs change only for the sake of a full offload.
    if (spec_.offload_goal() != "full" || !spec_.edge_quant().empty()) fixed.insert("fe_args");
    std::set<std::string> tried;
    int without_gain = 0;
    while (MayCompile() && without_gain < kRoundsWithoutGain) {
      if (outcome.report.level == compile::OffloadLevel::kFull) break;
      const std::vector<std::string> changes =
          ProposeChanges(outcome.report, outcome.options, fixed, tried, spec_.consent());
      if (changes.empty()) break;
      tried.insert(changes.begin(), changes.end());
      CompilerOptions options = outcome.options;
      for (const std::string& change : changes) {
        GQ_RETURN_IF_ERROR(compile::ApplyOption(change, spec_.consent(), options));
      }
      if (!compile::CheckOptions(options).ok()) {
        ++without_gain;
        continue;
      }
      const fs::path trial = context_.files.work_dir() / "tmp" / StrCat("round_", compiles_);
      GQ_RETURN_IF_ERROR(base::MakeFolder(trial));
      absl::StatusOr<Outcome> tried_out = CompileOnce(options, trial);
      if (!tried_out.ok()) {
        GQ_RETURN_IF_ERROR(GiveUpTrial(base::StrJoin(changes, " "), tried_out.status()));
        ++without_gain;
        continue;
      }
      Outcome candidate = *std::move(tried_out);
      const bool better = IsBetterOffload(candidate.report, outcome.report);
      GQ_RETURN_IF_ERROR(Record(base::StrJoin(changes, " "), candidate, outcome, better));
      if (!better) {
        ++without_gain;
        continue;
      }
      without_gain = 0;
      GQ_RETURN_IF_ERROR(Replace(cache, trial));
      outcome = std::move(candidate);
    }
    return absl::OkStatus();
  }

  // After the options, the quantization: once, and only when it costs no goal of the accuracy.
  absl::Status TryQuantization(const fs::path& cache, Outcome& outcome) {
    if (outcome.report.level == compile::OffloadLevel::kFull || !MayCompile()) {
      return absl::OkStatus();
    }
    GQ_ASSIGN_OR_RETURN(const fs::path folder, Scratch());
    const absl::StatusOr<std::optional<Requantized>> requantized =
        Requantize(context_, outcome.report, folder / "quantized");
    if (!requantized.ok()) return GiveUpTrial("another quantization", requantized.status());
    const std::optional<Requantized>& changed = *requantized;
    if (!changed) return absl::OkStatus();
    const fs::path old_model = model_;
    const compile::Classification old_classification = classification_;
    model_ = changed->model;
    GQ_RETURN_IF_ERROR(Analyze());
    GQ_ASSIGN_OR_RETURN(const CompilerOptions options, ChooseOptions());
    const fs::path trial = context_.files.work_dir() / "tmp" / "requantized";
    GQ_RETURN_IF_ERROR(base::MakeFolder(trial));
    absl::StatusOr<Outcome> compiled = CompileOnce(options, trial);
    if (!compiled.ok()) {
      model_ = old_model;
      classification_ = old_classification;
      return GiveUpTrial("another quantization", compiled.status());
    }
    Outcome candidate = *std::move(compiled);
    const bool spoils = changed->verdict == "goal_not_met" && EarlierVerdict() == "goal_met";
    const bool better = !spoils && IsBetterOffload(candidate.report, outcome.report);
    GQ_RETURN_IF_ERROR(Record(StrCat("quantize ", base::StrJoin(changed->included, " "),
                                     spoils ? " (the accuracy goal would be missed)" : ""),
                              candidate, outcome, better));
    if (!better) {
      model_ = old_model;
      classification_ = old_classification;
      return absl::OkStatus();
    }
    for (const fs::path& file : {changed->model, changed->config}) {
      GQ_ASSIGN_OR_RETURN(const fs::path output, context_.files.output(file.filename().string()));
      std::error_code error;
      fs::copy_file(file, output, fs::copy_options::overwrite_existing, error);
      if (error) {
        return MakeError(Reason::kFileUnwritable, StrCat(output.string(), ": ", error.message()));
      }
    }
    outcome = std::move(candidate);
    GQ_RETURN_IF_ERROR(Replace(cache, trial));
    return TryOptions(cache, outcome);
  }

  // A trial that fails costs nothing of what is there already; only a cancellation ends the step.
  absl::Status GiveUpTrial(std::string_view what, const absl::Status& status) {
    if (base::GetReason(status) == Reason::kCancelled) return status;
    Warn(StrCat("a trial with ", what, " failed: ", base::FromAbsl(status.message())));
    return absl::OkStatus();
  }

  // Whether --compile-rounds allows one more.
  bool MayCompile() const {
    return compiles_ < (spec_.has_compile_rounds() ? spec_.compile_rounds() : kDefaultRounds);
  }

  std::string EarlierVerdict() const {
    std::string verdict = "not_judged";
    for (const std::string& text : context_.lease.earlier_reports()) {
      const auto report = nlohmann::json::parse(text, nullptr, false);
      const nlohmann::json::json_pointer path("/verdict/result");
      if (report.is_object() && report.contains(path) && report[path].is_string()) {
        verdict = report[path].get<std::string>();
      }
    }
    return verdict;
  }

  // What a board run compares or chooses from is compiled beside the model: the other finalists of
  // a search, and the float model for a board that runs only what was compiled for it. None of them
  // is needed, so a failure costs only itself.
  absl::Status CompileForTheRun(const CompilerOptions* chosen, Json& report) {
    const std::string why_not =
        job::WhyNotExecuted(spec_.exec_if(), report.dump(-1, ' ', false, kReplace));
    if (spec_.stage() != gq::v1::STAGE_EXEC || !why_not.empty()) return absl::OkStatus();
    for (const Finalist& finalist : FinalistsOf(context_)) {
      if (finalist.best) continue;
      context_.reporter.Info(kComponent, StrCat("Compiling ", finalist.Name(),
                                                " of the search, for the board to choose"));
      GQ_ASSIGN_OR_RETURN(Json part, CompileBeside(finalist.model, finalist.Folder(),
                                                   StrCat("finalist_", finalist.number), chosen));
      part["number"] = finalist.number;
      if (part.contains("failed")) {
        Warn(StrCat(finalist.Name(),
                    " could not be compiled and drops out: ", part["failed"].get<std::string>()));
      }
      report["finalists"].push_back(std::move(part));
    }
    const std::optional<fs::path> model = context_.files.artifact("model_float.onnx");
    if (!probe_.vaiml || !probe_.runs_compiled || !model) return absl::OkStatus();
    context_.reporter.Info(kComponent, "Compiling the float model, to measure the speed-up");
    GQ_ASSIGN_OR_RETURN(Json part, CompileBeside(*model, kFloatCompile, "float", nullptr));
    if (part.contains("failed")) {
      Warn(StrCat("the float model could not be compiled, so there is no speed-up: ",
                  part["failed"].get<std::string>()));
    }
    report["float_model"] = std::move(part);
    return absl::OkStatus();
  }

  // The part of the report about a model that is compiled into `folder`, or `failed` with the
  // reason.
  absl::StatusOr<Json> CompileBeside(const fs::path& model, const std::string& folder,
                                     std::string what, const CompilerOptions* chosen) {
    GQ_ASSIGN_OR_RETURN(const fs::path inside, context_.files.output(folder + "/x"));
    const fs::path cache = inside.parent_path();
    CompileStep other(context_, board_, backend_, std::move(what));
    absl::StatusOr<Json> part =
        other.CompileOther(model, cache, chosen, classification_.model_class);
    if (part.ok()) {
      const auto options = compile::OptionsOfReport(*part);
      if (!options) return part;
      GQ_RETURN_IF_ERROR(base::WriteFileAtomically(cache / "vitisai_config.json",
                                                   compile::FormatVitisaiConfig(*options)));
      return part;
    }
    if (base::GetReason(part.status()) == Reason::kCancelled) return part.status();
    std::error_code ignored;
    fs::remove_all(cache, ignored);
    return Json{{"failed", base::FromAbsl(part.status().message())}};
  }

  static absl::Status Replace(const fs::path& cache, const fs::path& trial) {
    std::error_code error;
    fs::remove_all(cache, error);
    fs::copy(trial, cache, fs::copy_options::recursive, error);
    if (!error) return absl::OkStatus();
    return MakeError(Reason::kFileUnwritable, StrCat(cache.string(), ": ", error.message()));
  }

  // One row of the ledger: what was tried, before and after.
  absl::Status Record(const std::string& changes, const Outcome& candidate, const Outcome& before,
                      bool better) {
    const auto percent = [](const Outcome& o) { return o.report.gops_percent.value_or(0); };
    gq::v1::Iteration iteration;
    iteration.set_number(NextIteration(context_) + recorded_++);
    iteration.set_step_index(context_.lease.step_index());
    iteration.set_kind("compile");
    iteration.set_candidate(changes);
    iteration.set_decision(better ? "kept" : "rolled-back");
    auto& metrics = *iteration.mutable_metrics();
    metrics["gops_percent"] = percent(candidate);
    metrics["gops_percent_before"] = percent(before);
    metrics["npu_partitions"] = candidate.report.npu_partitions;
    metrics["npu_partitions_before"] = before.report.npu_partitions;
    for (const auto& [phase, seconds] : candidate.seconds) {
      iteration.set_seconds(iteration.seconds() + seconds);
    }
    context_.reporter.Info(
        kComponent, StrCat("Round with ", changes, better ? " kept: " : " rolled back: ",
                           absl::StrFormat("%.3f %% of the operations offloaded, before %.3f %%",
                                           percent(candidate), percent(before)),
                           Simulated()));
    return context_.channel.SendIteration(iteration);
  }

  Json Describe(const Outcome& outcome) const {
    Json report = Json::parse(compile::CompileReportJson(
        {probe_.simulated, std::string(backend_.name()), outcome.options.device, outcome.seconds},
        classification_, outcome.options, outcome.report));
    if (patch_) report["vaip_patch"] = *patch_;
    return report;
  }

  absl::StatusOr<gq::v1::StepResult> Finish(const Outcome& outcome, Json report) {
    GQ_ASSIGN_OR_RETURN(const fs::path config, context_.files.output("vitisai_config.json"));
    GQ_RETURN_IF_ERROR(
        base::WriteFileAtomically(config, compile::FormatVitisaiConfig(outcome.options)));
    LogReport(outcome.report);
    report["warnings"] = warnings_;
    for (const std::string& warning : outcome.report.warnings)
      report["warnings"].push_back(warning);
    // Rows of the ledger, those of tries of this step that were broken off included.
    report["rounds"] = context_.lease.iterations_size() + recorded_;
    gq::v1::StepResult result;
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    result.set_report_json(report.dump(-1, ' ', false, kReplace));
    if (spec_.offload_goal() == "full" && outcome.report.level != compile::OffloadLevel::kFull) {
      result.set_verdict(gq::v1::VERDICT_GOAL_NOT_MET);
    }
    JudgeTargets(context_, {job::MeasuredBy::kQuantize, job::MeasuredBy::kCompile}, result);
    return result;
  }

  void LogReport(const PartitionReport& report) {
    bool first = true;
    for (const std::string& line : compile::DescribePartitions(report)) {
      context_.reporter.Info(kComponent, first ? line + Simulated() : line);
      first = false;
    }
    for (const std::string& warning : report.warnings) {
      context_.reporter.Warn(kComponent, warning);
    }
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
  const std::string what_;
  Probe probe_;
  fs::path model_;
  compile::Classification classification_;
  compile::BoundaryQuantization boundary_;
  std::optional<std::string> patch_;
  std::vector<std::string> warnings_;
  int recorded_ = 0;
  int compiles_ = 0;
  int scratches_ = 0;
};

}  // namespace

absl::StatusOr<gq::v1::StepResult> RunCompileStep(const rpc::StepContext& context,
                                                  const BoardSpec& board, const Backend& backend) {
  return CompileStep(context, board, backend).Run();
}

}  // namespace gq::agent
