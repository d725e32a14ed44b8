#include "common/explore/run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <set>

#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/analysis.h"
#include "common/quantize/node_patterns.h"
#include "common/quantize/quark_json.h"

namespace gq::explore {
namespace {

using base::StrCat;
using nlohmann::json;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of all threads of this process.
double CpuSeconds() {
  timespec now{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::string Fixed(double value, int digits) {
  char text[48];
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

json StateOf(std::string_view state) { return json::parse(state, nullptr, false); }

}  // namespace

Run::Run(const Problem& problem, CandidateMaker& maker, const std::vector<IterationRecord>& earlier,
         Journal& journal, base::Reporter& reporter)
    : problem_(problem),
      maker_(maker),
      earlier_(earlier),
      journal_(journal),
      reporter_(reporter),
      compute_layers_(static_cast<int>(graph::ComputeLayers(problem.float_model.graph()).size())) {}

const IterationRecord* Run::Find(std::string_view kind, std::string_view candidate) const {
  for (const IterationRecord& record : earlier_) {
    if (record.kind == kind && record.candidate == candidate) return &record;
  }
  return nullptr;
}

std::optional<json> Run::Remembered(std::string_view key) const {
  for (const IterationRecord& record : earlier_) {
    const json state = StateOf(record.state);
    if (state.is_object() && state.contains(std::string(key))) return state[std::string(key)];
  }
  return std::nullopt;
}

bool Run::OutOfTime() const {
  return problem_.limits.time_budget > 0 && SecondsSince(start_) >= problem_.limits.time_budget;
}

absl::Status Run::CheckCancelled() const {
  if (!reporter_.Cancelled()) return absl::OkStatus();
  return base::MakeError(base::Reason::kCancelled, "the exploration was cancelled");
}

absl::StatusOr<Run::Tried> Run::Try(std::string_view kind, std::string_view candidate,
                                    const std::vector<int64_t>& only, Make make) {
  GQ_RETURN_IF_ERROR(CheckCancelled());
  Tried tried;
  tried.make = std::move(make);
  if (const IterationRecord* record = Find(kind, candidate)) {
    tried.known = true;
    tried.failed = record->decision == "failed";
    tried.seconds = record->seconds;
    tried.config_json = record->config_json;
    const json state = StateOf(record->state);
    const auto figures =
        state.is_object() ? Figures::FromJson(state.value("figures", json())) : std::nullopt;
    if (figures) tried.figures = *figures;
    if (figures || tried.failed) return tried;
    tried = {.make = std::move(tried.make)};
  }
  const auto begin = std::chrono::steady_clock::now();
  const double cpu_begin = CpuSeconds();
  const absl::Status status = [&]() -> absl::Status {
    GQ_ASSIGN_OR_RETURN(const Candidate made, tried.make());
    tried.config_json = quantize::WriteQuarkJson(made.config);
    GQ_ASSIGN_OR_RETURN(tried.evaluation, maker_.Evaluate(made.model, only));
    tried.figures = FiguresOf(*tried.evaluation, problem_.evaluate.targets);
    return absl::OkStatus();
  }();
  tried.seconds = SecondsSince(begin);
  tried.cpu_seconds = CpuSeconds() - cpu_begin;
  if (status.ok()) return tried;
  if (base::GetReason(status) == base::Reason::kCancelled) return status;
  reporter_.Warn("Explore",
                 StrCat(candidate, " failed and is left out: ", base::FromAbsl(status.message())));
  tried.failed = true;
  return tried;
}

absl::StatusOr<Run::Tried> Run::TryStart(const std::vector<int64_t>& only) {
  Make make = [this]() -> absl::StatusOr<Candidate> {
    return Candidate{.nodes = {},
                     .config = problem_.config,
                     .model = problem_.start,
                     .report = problem_.start_report};
  };
  if (!problem_.start_figures || !only.empty()) {
    return Try("preset", "start", only, std::move(make));
  }
  Tried tried;
  tried.figures = *problem_.start_figures;
  tried.known = Find("preset", "start") != nullptr;
  tried.config_json = quantize::WriteQuarkJson(problem_.config);
  tried.make = std::move(make);
  return tried;
}

absl::Status Run::Decide(std::string_view kind, std::string_view candidate,
                         std::string_view decision, const Tried& tried,
                         const std::vector<std::string>& nodes, int layers, bool full,
                         const json& extra) {
  TraceRow row{.number = rows() + 1,
               .kind = std::string(kind),
               .candidate = std::string(candidate),
               .decision = tried.failed ? "failed" : std::string(decision),
               .layers = layers,
               .figures = tried.figures,
               .seconds = tried.seconds,
               .cpu_seconds = tried.cpu_seconds,
               .full = full && !tried.failed};
  if (!tried.known) {
    json state = extra;
    if (!tried.failed) state["figures"] = tried.figures.ToJson();
    std::map<std::string, double> metrics;
    if (!tried.failed) metrics = tried.figures.Metrics();
    metrics["layers"] = layers;
    metrics["share"] = compute_layers_ > 0 ? static_cast<double>(layers) / compute_layers_ : 0;
    GQ_RETURN_IF_ERROR(journal_.Record({.number = row.number,
                                        .kind = row.kind,
                                        .candidate = row.candidate,
                                        .decision = row.decision,
                                        .metrics = std::move(metrics),
                                        .config_json = tried.config_json,
                                        .seconds = tried.seconds,
                                        .state = state.dump()}));
  }
  LogRow(row);
  const bool row_full = row.full;
  trace_.push_back(std::move(row));
  nodes_.push_back(nodes);
  makes_.push_back(tried.make);
  evaluations_.push_back(row_full ? tried.evaluation : std::nullopt);
  return absl::OkStatus();
}

void Run::LogRow(const TraceRow& row) {
  constexpr const char* kHeader =
      "  #  layers   share     PSNR  pass rate   top-1  samples  decision     candidate";
  if (row.number == 1) reporter_.Info("Explore", kHeader);
  const double share = compute_layers_ > 0 ? 100.0 * row.layers / compute_layers_ : 0;
  char text[160];
  if (row.decision == "failed") {
    std::snprintf(text, sizeof text, "%3d  %6d  %5.1f %%  %7s  %9s  %6s  %7s  %-11s  ", row.number,
                  row.layers, share, "-", "-", "-", "-", row.decision.c_str());
  } else {
    std::snprintf(text, sizeof text, "%3d  %6d  %5.1f %%  %7s  %7s %%  %6s  %7lld  %-11s  ",
                  row.number, row.layers, share, Fixed(row.figures.measure.psnr_db, 2).c_str(),
                  Fixed(row.figures.measure.pass_rate, 2).c_str(),
                  row.figures.top1 < 0 ? "-" : Fixed(row.figures.top1, 2).c_str(),
                  static_cast<long long>(row.figures.samples), row.decision.c_str());
  }
  reporter_.Info("Explore", StrCat(text, row.candidate));
}

Run::Make Once(Run::Make make) {
  auto made = std::make_shared<std::optional<Candidate>>();
  return [made, make = std::move(make)]() -> absl::StatusOr<Candidate> {
    if (!*made) {
      GQ_ASSIGN_OR_RETURN(*made, make());
    }
    return **made;
  };
}

int CountLayers(const Problem& problem, const std::vector<std::string>& nodes) {
  const std::set<std::string_view> inside(nodes.begin(), nodes.end());
  int count = 0;
  for (const onnx::NodeProto& node : problem.float_model.graph().node()) {
    if (graph::IsComputeNode(node) && inside.contains(node.name())) ++count;
  }
  return count;
}

absl::StatusOr<std::vector<std::string>> NodesOfPatterns(const Problem& problem,
                                                         const std::vector<std::string>& patterns) {
  std::vector<std::string> nodes;
  if (patterns.empty()) return nodes;
  const bool carried = problem.origin != nullptr;
  std::vector<std::string> warnings;
  GQ_ASSIGN_OR_RETURN(
      const auto names,
      quantize::MatchNodes(carried ? *problem.origin->graph : problem.float_model.graph(), patterns,
                           {.allow_unmatched = problem.config.allow_unmatched}, &warnings));
  std::set<std::string> wanted;
  for (const std::string& name : names) {
    const auto renamed = carried ? problem.origin->renamed_nodes.find(name)
                                 : std::map<std::string, std::string>::const_iterator();
    const bool moved = carried && renamed != problem.origin->renamed_nodes.end();
    wanted.insert(moved ? renamed->second : name);
  }
  for (const onnx::NodeProto& node : problem.float_model.graph().node()) {
    if (wanted.contains(node.name())) nodes.push_back(node.name());
  }
  return nodes;
}

std::vector<std::string> QuantizedLayers(const Problem& problem, const CandidateMaker& maker) {
  std::set<std::string> in_float;  // or, where int4 weights become int8, in 8 bits already
  const bool to_int8 = problem.limits.precision == onnx::TensorProto::INT8;
  for (const json& layer : problem.start_report.value("layers", json::array())) {
    const bool wide = to_int8 && layer.value("weight_bits", 8) >= 8;
    if (wide || layer.value("precision", "") == "float32") in_float.insert(layer.value("node", ""));
  }
  std::vector<std::string> layers;
  for (const std::string& layer : graph::ComputeLayers(problem.float_model.graph())) {
    if (!in_float.contains(layer) && maker.CanName(layer)) layers.push_back(layer);
  }
  return layers;
}

}  // namespace gq::explore
