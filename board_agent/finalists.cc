#include "board_agent/finalists.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "board_agent/step_options.h"
#include "common/accuracy/evaluation_json.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/graph/model.h"
#include "common/graph/task_type.h"
#include "common/job/exec_condition.h"
#include "gq/v1/job_service.pb.h"

namespace gq::agent {
namespace {

namespace fs = std::filesystem;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr char kComponent[] = "Run";

Json Parse(const std::string& text) { return Json::parse(text, nullptr, false); }

bool MeetsGoal(const Json& figures) {
  return figures.is_object() && figures.value("judged", false) && figures.value("goal_met", false);
}

// The goal of the job, as Evaluate and Explore judge it.
absl::StatusOr<accuracy::EvaluateOptions> GoalOf(const rpc::StepContext& context) {
  const gq::v1::JobSpec& spec = context.lease.spec();
  accuracy::EvaluateOptions options;
  if (spec.has_atol()) options.atol = spec.atol();
  if (spec.has_rtol()) options.rtol = spec.rtol();
  options.allow_more_labels = spec.has_num_samples();
  GQ_ASSIGN_OR_RETURN(options.targets, accuracy::ParseTargets({spec.target_accuracy().begin(),
                                                               spec.target_accuracy().end()}));
  if (const auto labels = context.files.labels()) {
    GQ_ASSIGN_OR_RETURN(options.labels, accuracy::ReadLabels(labels->string()));
  }
  const Json part = EarlierPart(context.lease, {"analysis"});
  const std::string task = part.is_object() ? part["analysis"].value("task", "") : "";
  options.task = graph::TaskFromName(task).value_or(options.task);
  return options;
}

// Figures of the worst output, for the ledger.
std::map<std::string, double> MetricsOf(const accuracy::Evaluation& evaluation) {
  std::map<std::string, double> metrics;
  const auto least = [&](const char* name, double value) {
    if (!std::isfinite(value)) return;
    const auto [entry, added] = metrics.emplace(name, value);
    if (!added) entry->second = std::min(entry->second, value);
  };
  for (const accuracy::OutputReport& output : evaluation.outputs) {
    if (!output.is_float) continue;
    least("psnr_db", output.figures.psnr_db);
    least("snr_db", output.figures.snr_db);
    least("cosine", output.figures.cosine);
    least("pass_rate", output.figures.pass_rate);
    if (const auto top1 = accuracy::MetricValue(accuracy::Metric::kTop1, output)) {
      least("top1", *top1);
    }
  }
  metrics["samples"] = static_cast<double>(evaluation.samples);
  return metrics;
}

// The result of a finalist on the board.
struct Tried {
  std::string decision;  // `kept` (the fastest so far), `skipped`, `rolled-back` (missed), `failed`
  std::string why;
  std::optional<Measured> measured;
  std::optional<accuracy::Evaluation> evaluation;
  Json outputs = Json::array();
  bool goal_met = false;
  // Its latency is that of the NPU or CPU that the board stands for.
  bool counts() const { return measured && measured->run.fell_back.empty(); }
};

class Choosing {
 public:
  Choosing(BoardMeasurement& measurement, const std::vector<Finalist>& finalists)
      : measurement_(measurement),
        context_(measurement.context()),
        finalists_(finalists),
        compile_(EarlierPart(measurement.context().lease, {"backend", "finalists"})) {}

  absl::StatusOr<Choice> Run() {
    GQ_ASSIGN_OR_RETURN(goal_, GoalOf(context_));
    const auto reference = context_.files.artifact("model_float.onnx");
    if (!reference) {
      return base::MakeError(Reason::kInternal, "the float model of an earlier step is missing");
    }
    GQ_ASSIGN_OR_RETURN(const graph::Model float_model, graph::LoadModel(*reference));
    GQ_ASSIGN_OR_RETURN(accuracy::Baseline baseline, accuracy::Baseline::Create(float_model));
    context_.reporter.Info(
        kComponent,
        StrCat("The board decides among ", finalists_.size(),
               finalists_.size() == 1 ? " candidate" : " candidates", " of the search that ",
               finalists_.size() == 1 ? "meets" : "meet", " the goal"));
    std::vector<Tried> all;
    std::optional<size_t> winner;
    for (size_t i = 0; i < finalists_.size(); ++i) {
      GQ_ASSIGN_OR_RETURN(Tried tried, Try(finalists_[i], baseline));
      const bool fits = tried.goal_met && tried.counts();
      if (fits && (!winner || Wins(tried, all[*winner]))) {
        tried.decision = "kept";
        winner = i;
      } else if (fits) {
        tried.decision = "skipped";
        tried.why = "not faster";
      }
      GQ_RETURN_IF_ERROR(Record(finalists_[i], tried));
      all.push_back(std::move(tried));
    }
    return Conclude(std::move(all), winner);
  }

 private:
  // What Compile says about a finalist; null when it says nothing.
  Json CompilePart(const Finalist& finalist) const {
    if (finalist.best) return EarlierPart(context_.lease, {"backend"});
    if (!compile_.is_object()) return nullptr;
    for (const Json& entry : compile_["finalists"]) {
      if (entry.is_object() && entry.value("number", 0) == finalist.number) return entry;
    }
    return nullptr;
  }

  BoardModel ModelOf(const Finalist& finalist) const {
    return {
        .path = finalist.model,
        .what = finalist.Name(),
        .compiled = CompiledFolder(context_, finalist.best ? kCompileFolder : finalist.Folder()),
        .compile_part = CompilePart(finalist)};
  }

  absl::StatusOr<Tried> Try(const Finalist& finalist, accuracy::Baseline& baseline) {
    Tried tried;
    const BoardModel model = ModelOf(finalist);
    if (model.compile_part.is_object() && model.compile_part.contains("failed")) {
      tried.decision = "failed";
      tried.why = StrCat("compile: ", model.compile_part["failed"].get<std::string>());
      return tried;
    }
    const std::string why_not =
        job::WhyNotExecuted(context_.lease.spec().exec_if(), model.compile_part.dump());
    if (!why_not.empty()) {
      tried.decision = "skipped";
      tried.why = why_not;
      return tried;
    }
    const absl::Status status = [&]() -> absl::Status {
      GQ_ASSIGN_OR_RETURN(tried.measured, measurement_.Measure(model));
      Json report;
      GQ_RETURN_IF_ERROR(measurement_.CompareWithCpu(model, *tried.measured, report));
      tried.outputs = report["outputs"];
      GQ_ASSIGN_OR_RETURN(tried.evaluation,
                          measurement_.Evaluate(model, *tried.measured, baseline, goal_));
      return absl::OkStatus();
    }();
    if (!status.ok()) {
      const Reason reason = base::GetReason(status);
      const bool ends = finalist.best || reason == Reason::kCancelled ||
                        reason == Reason::kBoardFailed || reason == Reason::kBoardBusy;
      if (ends) return status;
      tried.decision = "failed";
      tried.why = base::FromAbsl(status.message());
      return tried;
    }
    const accuracy::Verdict& verdict = tried.evaluation->verdict;
    tried.goal_met = verdict.result == accuracy::VerdictResult::kGoalMet;
    tried.why = verdict.reason;
    tried.decision = "rolled-back";
    if (tried.goal_met && !tried.counts()) {
      tried.decision = "skipped";
      tried.why = StrCat("not on the NPU: ", tried.measured->run.fell_back);
    }
    return tried;
  }

  // At the same latency the better figures win.
  static bool Wins(const Tried& a, const Tried& b) {
    const double faster = b.measured->latency.p50 - a.measured->latency.p50;
    if (faster != 0) return faster > 0;
    return MetricsOf(*a.evaluation)["psnr_db"] > MetricsOf(*b.evaluation)["psnr_db"];
  }

  absl::Status Record(const Finalist& finalist, const Tried& tried) {
    gq::v1::Iteration iteration;
    iteration.set_number(NextIteration(context_) + recorded_++);
    iteration.set_step_index(context_.lease.step_index());
    iteration.set_kind("board");
    iteration.set_candidate(
        StrCat(finalist.Name(), " on ", measurement_.board().name, measurement_.Simulated()));
    iteration.set_decision(tried.decision);
    auto& metrics = *iteration.mutable_metrics();
    if (tried.evaluation) {
      for (const auto& [name, value] : MetricsOf(*tried.evaluation)) metrics[name] = value;
      metrics["goal_met"] = tried.goal_met ? 1 : 0;
    }
    if (tried.measured) {
      const bool mean = tried.measured->run.mean_of > 0;
      metrics[mean ? "latency_mean_ms" : "latency_p50_ms"] = tried.measured->latency.p50;
      iteration.set_seconds(tried.measured->run.setup_seconds +
                            tried.measured->latency.mean * tried.measured->runs() / 1e3);
    }
    metrics["layers"] = finalist.layers;
    metrics["simulated"] = measurement_.probe().simulated ? 1 : 0;
    if (const auto config = base::ReadFile(finalist.config); config.ok()) {
      iteration.set_config_json(*config);
    }
    const std::string latency =
        tried.measured ? absl::StrFormat("%.3f ms, ", tried.measured->latency.p50) : std::string();
    context_.reporter.Info(
        kComponent, StrCat(finalist.Name(), " (", finalist.layers, " layers promoted) ",
                           tried.decision, ": ", latency, tried.why, measurement_.Simulated()));
    return context_.channel.SendIteration(iteration);
  }

  Json Row(const Finalist& finalist, const Tried& tried) const {
    Json row = {{"number", finalist.number},       {"layers", finalist.layers},
                {"best_of_search", finalist.best}, {"board", measurement_.board().name},
                {"decision", tried.decision},      {"reason", tried.why},
                {"goal_met", tried.goal_met}};
    if (tried.measured) {
      row["latency_ms"] = LatencyJson(*tried.measured);
      row["class"] = tried.measured->model_class;
      if (!tried.measured->run.fell_back.empty()) {
        row["fell_back"] = tried.measured->run.fell_back;
      }
    }
    if (tried.evaluation) row["figures"] = MetricsOf(*tried.evaluation);
    return row;
  }

  absl::StatusOr<Choice> Conclude(std::vector<Tried> all, std::optional<size_t> winner) {
    Json rows = Json::array();
    for (size_t i = 0; i < all.size(); ++i) rows.push_back(Row(finalists_[i], all[i]));
    const size_t chosen = winner.value_or(0);
    if (!all[chosen].measured) {
      return base::MakeError(Reason::kBoardFailed,
                             StrCat("no candidate could be run: ", all[chosen].why));
    }
    Choice choice{.winner = finalists_[chosen], .model = ModelOf(finalists_[chosen])};
    choice.measured = *std::move(all[chosen].measured);
    choice.report = measurement_.Describe(choice.measured);
    choice.report["outputs"] = std::move(all[chosen].outputs);
    choice.report["finalists"] = std::move(rows);
    choice.report["winner"] = choice.winner.number;
    if (all[chosen].evaluation) {
      choice.report["accuracy"] = accuracy::EvaluationJson(*all[chosen].evaluation);
    }
    choice.goal_met = winner.has_value();
    if (winner) {
      context_.reporter.Info(
          kComponent, absl::StrFormat("%s wins on %s: %.3f ms", choice.winner.Name(),
                                      measurement_.board().name, choice.measured.latency.p50) +
                          measurement_.Simulated());
    } else {
      measurement_.Warn(
          "no candidate meets the goal with the outputs that the board computed; the best of the "
          "search stays");
    }
    return choice;
  }

  BoardMeasurement& measurement_;
  const rpc::StepContext& context_;
  const std::vector<Finalist>& finalists_;
  const Json compile_;
  accuracy::EvaluateOptions goal_;
  int recorded_ = 0;
};

}  // namespace

std::string Finalist::Name() const { return StrCat("candidate ", number); }

std::string Finalist::Folder() const { return absl::StrFormat("finalists/%02d", number); }

std::vector<Finalist> FinalistsOf(const rpc::StepContext& context) {
  std::vector<Finalist> finalists;
  const gq::v1::JobSpec& spec = context.lease.spec();
  const auto quantized = context.files.artifact("model_quantized.onnx");
  const Json explore = EarlierPart(context.lease, {"pareto", "best"});
  if (spec.stage() != gq::v1::STAGE_EXEC || !quantized || !explore.is_object()) return finalists;
  const Json& best = explore["best"];
  if (!best.is_object() || !MeetsGoal(best.value("figures", Json()))) return finalists;
  finalists.push_back({.number = best.value("number", 0),
                       .layers = best.value("layers", 0),
                       .best = true,
                       .model = *quantized,
                       .config = context.files.artifact("quark_config.json").value_or(fs::path()),
                       .report = {}});
  for (const Json& point : explore["pareto"]) {
    if (!point.is_object() || finalists.size() >= kMostFinalists) continue;
    const int number = point.value("number", 0);
    const std::string folder = point.value("folder", "");
    const auto model = context.files.artifact(folder + "/model_quantized.onnx");
    if (number == finalists[0].number || !model || !MeetsGoal(point.value("figures", Json()))) {
      continue;
    }
    finalists.push_back(
        {.number = number,
         .layers = point.value("layers", 0),
         .best = false,
         .model = *model,
         .config = context.files.artifact(folder + "/quark_config.json").value_or(fs::path()),
         .report = context.files.artifact(folder + "/report.json").value_or(fs::path())});
  }
  return finalists;
}

absl::StatusOr<Choice> ChooseOnBoard(BoardMeasurement& measurement,
                                     const std::vector<Finalist>& finalists) {
  return Choosing(measurement, finalists).Run();
}

int NextIteration(const rpc::StepContext& context) {
  size_t earlier = 0;
  for (const std::string& text : context.lease.earlier_reports()) {
    const Json part = Parse(text);
    if (!part.is_object()) continue;
    for (const Json* search : {&part, part.contains("explore") ? &part.at("explore") : &part}) {
      const bool counts =
          search->is_object() && search->contains("trace") && search->at("trace").is_array();
      if (counts) earlier = std::max(earlier, search->at("trace").size());
    }
    earlier += part.value("rounds", size_t{0});
  }
  int last = static_cast<int>(earlier);
  for (const gq::v1::Iteration& iteration : context.lease.iterations()) {
    last = std::max(last, iteration.number());
  }
  return last + 1;
}

}  // namespace gq::agent
