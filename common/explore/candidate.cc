#include "common/explore/candidate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/accuracy/evaluation_json.h"
#include "common/base/quiet_reporter.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/promotion.h"
#include "common/graph/graph_index.h"
#include "common/quantize/reduced_precision.h"

namespace gq::explore {
namespace {

using nlohmann::json;

std::optional<double> NumberIn(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (*found == "inf") return std::numeric_limits<double>::infinity();
  if (*found == "-inf") return -std::numeric_limits<double>::infinity();
  if (*found == "nan") return std::nan("");
  return std::nullopt;
}

// With the activations that stand alone behind them, whose results are the layers' outputs.
std::vector<std::string> WithActivations(const onnx::GraphProto& graph,
                                         std::vector<std::string> nodes) {
  static const std::set<std::string> kTypes = {"Relu", "Clip", "LeakyRelu", "PRelu"};
  const graph::GraphIndex index(graph);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const onnx::NodeProto* node = index.FindNode(nodes[i]);
    if (node == nullptr || node->output_size() != 1) continue;
    const onnx::NodeProto* reader = index.OnlyConsumer(node->output(0));
    if (reader == nullptr || !kTypes.contains(reader->op_type())) continue;
    if (std::find(nodes.begin(), nodes.end(), reader->name()) == nodes.end()) {
      nodes.push_back(reader->name());
    }
  }
  return nodes;
}

}  // namespace

json Figures::ToJson() const {
  return {{"pass_rate", accuracy::JsonNumber(measure.pass_rate)},
          {"psnr_db", accuracy::JsonNumber(measure.psnr_db)},
          {"snr_db", accuracy::JsonNumber(snr_db)},
          {"top1", accuracy::JsonNumber(top1)},
          {"goal_met", goal_met},
          {"judged", judged},
          {"samples", samples},
          {"primary", accuracy::JsonNumber(primary)}};
}

std::optional<Figures> Figures::FromJson(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto pass_rate = NumberIn(object, "pass_rate");
  const auto psnr = NumberIn(object, "psnr_db");
  const auto snr = NumberIn(object, "snr_db");
  if (!pass_rate || !psnr || !snr) return std::nullopt;
  return Figures{.measure = {.pass_rate = *pass_rate, .psnr_db = *psnr},
                 .snr_db = *snr,
                 .top1 = NumberIn(object, "top1").value_or(-1),
                 .goal_met = object.value("goal_met", false),
                 .judged = object.value("judged", true),
                 .samples = object.value("samples", int64_t{0}),
                 .primary = NumberIn(object, "primary").value_or(0)};
}

std::map<std::string, double> Figures::Metrics() const {
  std::map<std::string, double> metrics;
  const auto add = [&metrics](const char* name, double value) {
    if (std::isfinite(value)) metrics[name] = value;
  };
  add("pass_rate", measure.pass_rate);
  add("psnr_db", measure.psnr_db);
  add("snr_db", snr_db);
  if (top1 >= 0) add("top1_agreement", top1);
  add("samples", static_cast<double>(samples));
  return metrics;
}

Figures FiguresOf(const accuracy::Evaluation& evaluation,
                  const std::vector<accuracy::TargetExpression>& targets) {
  // The report's own words are the one place where outputs are summed up.
  return FiguresOfReport(accuracy::EvaluationJson(evaluation), targets).value_or(Figures{});
}

std::optional<Figures> FiguresOfReport(const json& evaluate,
                                       const std::vector<accuracy::TargetExpression>& targets) {
  const auto outputs = evaluate.find("outputs");
  if (outputs == evaluate.end() || !outputs->is_array() || outputs->empty()) return std::nullopt;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Figures figures{.measure = {.pass_rate = 100, .psnr_db = kInfinity}, .snr_db = kInfinity};
  for (const json& output : *outputs) {
    if (const auto agreement = NumberIn(output, "argmax_agreement")) {
      figures.top1 = figures.top1 < 0 ? *agreement : std::min(figures.top1, *agreement);
    }
    if (!output.value("dtype", "float32").starts_with("float")) continue;
    const auto least = [&output](const char* key, double& value) {
      if (const auto number = NumberIn(output, key)) value = std::min(value, *number);
    };
    least("pass_rate", figures.measure.pass_rate);
    least("psnr_db", figures.measure.psnr_db);
    least("snr_db", figures.snr_db);
  }
  figures.samples = evaluate.value("data", json::object()).value("samples", int64_t{0});
  const json verdict = evaluate.value("verdict", json::object());
  const std::string result = verdict.value("result", "not_judged");
  figures.goal_met = result == "goal_met";
  figures.judged = result != "not_judged";
  const std::string task = evaluate.value("task", "");
  figures.primary = figures.measure.pass_rate;
  if (figures.top1 >= 0 && (task == "classification" || task == "segmentation")) {
    figures.primary = figures.top1;
  }
  if (targets.empty()) return figures;
  const bool more_is_better = targets[0].comparison == accuracy::Comparison::kGreater ||
                              targets[0].comparison == accuracy::Comparison::kGreaterEqual;
  for (const json& goal : verdict.value("goals", json::array())) {
    if (goal.value("expression", "") != targets[0].text) continue;
    if (const auto value = NumberIn(goal, "value")) {
      figures.primary = more_is_better ? *value : -*value;
    }
  }
  return figures;
}

bool IsBetter(const Figures& a, const Figures& b) {
  if (a.goal_met != b.goal_met) return a.goal_met;
  if (a.primary != b.primary) return a.primary > b.primary;
  return a.measure.psnr_db > b.measure.psnr_db;
}

absl::StatusOr<std::unique_ptr<CandidateMaker>> CandidateMaker::Create(const Problem& problem,
                                                                       base::Reporter& reporter) {
  GQ_ASSIGN_OR_RETURN(accuracy::Baseline baseline, accuracy::Baseline::Create(problem.float_model));
  return std::unique_ptr<CandidateMaker>(
      new CandidateMaker(problem, reporter, std::move(baseline)));
}

std::vector<std::string> CandidateMaker::UserNames(const std::vector<std::string>& nodes) const {
  if (problem_.origin == nullptr) return nodes;
  const graph::GraphIndex index(*problem_.origin->graph);
  const auto& renamed = problem_.origin->renamed_nodes;
  std::vector<std::string> names;
  for (const std::string& node : nodes) {
    if (index.FindNode(node) != nullptr && !renamed.contains(node)) {
      names.push_back(node);
      continue;
    }
    const auto found = std::find_if(renamed.begin(), renamed.end(), [&](const auto& entry) {
      return entry.second == node && index.FindNode(entry.first) != nullptr;
    });
    if (found != renamed.end()) names.push_back(found->first);
  }
  return names;
}

quantize::Promotion CandidateMaker::PromotionOf(const std::vector<std::string>& nodes) const {
  const std::vector<std::string> names =
      UserNames(problem_.limits.precision == onnx::TensorProto::INT16
                    ? WithActivations(problem_.float_model.graph(), nodes)
                    : nodes);
  return {names, problem_.limits.precision, problem_.form};
}

absl::StatusOr<Candidate> CandidateMaker::Quantize(const std::vector<std::string>& nodes,
                                                   const std::vector<std::string>& passes) {
  base::QuietReporter quiet(reporter_);
  Candidate candidate{.nodes = nodes, .config = problem_.config};
  Promote(PromotionOf(nodes), &candidate.config);
  // What repeats this candidate, not the one that the search starts from.
  if (candidate.config.recovery) candidate.config.recovery = passes;
  quantize::QuantizeInputs inputs{.origin = problem_.origin,
                                  .table = table_.tensors.empty() ? nullptr : &table_,
                                  .allow_nonfinite = problem_.allow_nonfinite};
  quantize::RecoverOptions recover = problem_.recover;
  recover.passes = passes;
  GQ_ASSIGN_OR_RETURN(quantize::QuantizeResult result,
                      quantize::QuantizeWithRecovery(problem_.float_model, candidate.config,
                                                     recover, problem_.calibration, quiet, inputs));
  // Recovery may have changed what the table was made from.
  if (passes.empty()) table_ = std::move(result.table);
  candidate.model = std::move(result.model);
  candidate.report = std::move(result.report);
  return candidate;
}

absl::StatusOr<Candidate> CandidateMaker::Plain(const std::vector<std::string>& nodes) {
  return Quantize(nodes, {});
}

absl::StatusOr<Candidate> CandidateMaker::Recovered(const std::vector<std::string>& nodes) {
  return Quantize(nodes, problem_.recover.passes);
}

absl::StatusOr<Candidate> CandidateMaker::FromStart(const std::vector<std::string>& nodes) {
  base::QuietReporter quiet(reporter_);
  Candidate candidate{.nodes = nodes, .config = problem_.config};
  const quantize::Promotion promotion = PromotionOf(nodes);
  if (!promotion.nodes.empty()) candidate.config.promotion = promotion;
  const quantize::QuantizeInputs inputs{
      .origin = problem_.origin,
      .table = source_table_.tensors.empty() ? nullptr : &source_table_,
      .allow_nonfinite = problem_.allow_nonfinite};
  GQ_ASSIGN_OR_RETURN(quantize::QuantizeResult result,
                      QuantizePromoted(problem_.start, problem_.source, problem_.source_config,
                                       promotion, problem_.calibration, quiet, inputs));
  source_table_ = std::move(result.table);
  candidate.model = std::move(result.model);
  candidate.report = std::move(result.report);
  return candidate;
}

absl::StatusOr<accuracy::Evaluation> CandidateMaker::Evaluate(const graph::Model& model,
                                                              const std::vector<int64_t>& only) {
  const bool full = only.empty();
  if (full) ++full_evaluations_;
  sample_runs_ += full ? problem_.evaluation.size() : static_cast<int64_t>(only.size());
  if (!full) {
    // Nothing is kept of them, but they run without pairs.
    IncrementalRuns once({.samples = 0});
    return EvaluateWith(&once, model, only);
  }
  return EvaluateWith(runs_.get(), model, only);
}

absl::StatusOr<accuracy::Evaluation> CandidateMaker::EvaluateFile(const graph::Model& model) {
  return EvaluateWith(nullptr, model, {});
}

absl::StatusOr<accuracy::Evaluation> CandidateMaker::EvaluateWith(
    IncrementalRuns* runs, const graph::Model& model, const std::vector<int64_t>& only) {
  base::QuietReporter quiet(reporter_);
  accuracy::EvaluateOptions options = problem_.evaluate;
  options.only = only;
  const quantize::HiddenPrecision hidden = quantize::FindHiddenPrecision(model);
  std::optional<quantize::ReducedPrecision> reference;
  if (hidden.any()) {
    GQ_ASSIGN_OR_RETURN(reference,
                        quantize::ReducedPrecisionReference(model, hidden.float_tensors));
  }
  const graph::Model& shown = reference ? reference->model : model;
  if (runs != nullptr) {
    // A model that cannot be run so is run as it is.
    auto runner = runs->Start(shown);
    if (runner.ok() && *runner != nullptr) {
      auto evaluation =
          accuracy::Evaluate(baseline_, shown, **runner, problem_.evaluation, options, quiet);
      runs->Finish(evaluation.ok());
      return evaluation;
    }
    runs->Finish(false);
  }
  return accuracy::Evaluate(baseline_, shown, problem_.evaluation, options, quiet);
}

void CandidateMaker::ReuseRuns() {
  if (runs_ == nullptr) {
    runs_ = std::make_unique<IncrementalRuns>(
        IncrementalOptions{.samples = problem_.evaluation.size()});
  }
}

void CandidateMaker::BuildOnLast(bool accepted) {
  if (runs_ == nullptr) return;
  if (accepted) {
    runs_->Accept();
  } else {
    runs_->Reject();
  }
}

}  // namespace gq::explore
