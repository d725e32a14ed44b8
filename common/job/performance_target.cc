#include "common/job/performance_target.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::job {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kTimes[] = {{"", 1}, {"ms", 1}, {"us", 1e-3}, {"s", 1e3}};
constexpr Unit kRates[] = {{"", 1}, {"/s", 1}, {"fps", 1}};
constexpr Unit kPercents[] = {{"", 1}, {"%", 1}};
constexpr Unit kCounts[] = {{"", 1}};
constexpr Unit kSizes[] = {{"", 1},     {"B", 1},         {"KB", 1e3},      {"MB", 1e6},
                           {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

struct Metric {
  std::string_view name;
  PerformanceMetric metric;
  MeasuredBy step;
  std::span<const Unit> units;
};
constexpr Metric kMetrics[] = {
    {"latency_p50", PerformanceMetric::kLatencyP50, MeasuredBy::kBoardRun, kTimes},
    {"latency_p99", PerformanceMetric::kLatencyP99, MeasuredBy::kBoardRun, kTimes},
    {"throughput", PerformanceMetric::kThroughput, MeasuredBy::kBoardRun, kRates},
    {"offload", PerformanceMetric::kOffload, MeasuredBy::kCompile, kPercents},
    {"partitions", PerformanceMetric::kPartitions, MeasuredBy::kCompile, kCounts},
    {"model_size", PerformanceMetric::kModelSize, MeasuredBy::kQuantize, kSizes},
    {"bf16_share", PerformanceMetric::kBf16Share, MeasuredBy::kQuantize, kPercents},
};

const Metric& MetricOf(PerformanceMetric metric) {
  for (const Metric& entry : kMetrics) {
    if (entry.metric == metric) return entry;
  }
  return kMetrics[0];
}

std::string MetricNames() {
  std::vector<std::string_view> names;
  for (const Metric& entry : kMetrics) names.push_back(entry.name);
  return base::StrJoin(names, ", ");
}

absl::Status Invalid(std::string_view text, std::string_view what) {
  return MakeError(
      Reason::kTargetInvalid, StrCat("performance goal '", text, "': ", what),
      StrCat("Write METRIC OP NUMBER[UNIT], like latency_p50<5ms. Metrics: ", MetricNames(), "."));
}

std::optional<double> NumberAt(const Json& object, const char* first, const char* second) {
  const Json::json_pointer path(StrCat("/", first, "/", second));
  if (!object.is_object() || !object.contains(path) || !object[path].is_number()) {
    return std::nullopt;
  }
  return object[path].get<double>();
}

bool Flag(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_boolean() && object[key].get<bool>();
}

// Percent of the layers with multiplications that are not integer.
std::optional<double> FloatShare(const Json& layers) {
  int64_t all = 0;
  int64_t floating = 0;
  for (const Json& layer : layers) {
    if (!layer.is_object() || !layer.contains("macs") || !layer["macs"].is_number() ||
        layer["macs"].get<double>() <= 0) {
      continue;
    }
    ++all;
    const std::string precision = layer.value("precision", "");
    if (precision.find("int") == std::string::npos && precision.find("INT") == std::string::npos &&
        !precision.starts_with("W")) {
      ++floating;
    }
  }
  if (all == 0) return std::nullopt;
  return 100.0 * static_cast<double>(floating) / static_cast<double>(all);
}

std::optional<double> FigureOf(const PerformanceFigures& f, PerformanceMetric metric) {
  switch (metric) {
    case PerformanceMetric::kLatencyP50:
      return f.latency_p50_ms;
    case PerformanceMetric::kLatencyP99:
      return f.latency_p99_ms;
    case PerformanceMetric::kThroughput:
      return f.throughput;
    case PerformanceMetric::kOffload:
      return f.offload_percent;
    case PerformanceMetric::kPartitions:
      return f.partitions;
    case PerformanceMetric::kModelSize:
      return f.model_bytes;
    case PerformanceMetric::kBf16Share:
      return f.bf16_percent;
  }
  return std::nullopt;
}

bool Holds(double value, std::string_view op, double wanted) {
  if (op == "<") return value < wanted;
  if (op == "<=") return value <= wanted;
  if (op == ">") return value > wanted;
  return value >= wanted;
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void ReadCompile(const Json& part, PerformanceFigures& f) {
  const std::string skipped = TextOf(part, "skipped");
  const std::string why = skipped.empty()
                              ? StrCat("backend ", TextOf(part, "backend"), " does not tell it")
                              : StrCat("Compile was left out: ", skipped);
  const auto take = [&](PerformanceMetric metric, std::optional<double> value,
                        std::optional<double>& field) {
    field = value;
    if (!value) f.unknown[metric] = why;
  };
  take(PerformanceMetric::kOffload, NumberAt(part, "offload", "gops_percent"), f.offload_percent);
  std::optional<double> partitions = NumberAt(part, "partitions", "npu");
  const auto cpu = NumberAt(part, "partitions", "cpu");
  partitions = partitions && cpu ? std::optional(*partitions + *cpu) : std::nullopt;
  take(PerformanceMetric::kPartitions, partitions, f.partitions);
  f.simulated_compile = Flag(part, "simulated");
}

void ReadRun(const Json& part, PerformanceFigures& f) {
  f.simulated_run = Flag(part, "simulated");
  if (part.contains("fell_back")) return;
  f.latency_p50_ms = NumberAt(part, "latency_ms", "p50");
  f.latency_p99_ms = NumberAt(part, "latency_ms", "p99");
  if (!f.latency_p50_ms) {
    f.unknown[PerformanceMetric::kLatencyP50] = "the board's tool tells a mean and no percentiles";
  }
  if (!f.latency_p99_ms) {
    f.unknown[PerformanceMetric::kLatencyP99] =
        f.latency_p50_ms ? "the board gives a single figure, which has no percentiles"
                         : f.unknown[PerformanceMetric::kLatencyP50];
  }
  if (part.contains("throughput_per_second") && part["throughput_per_second"].is_number()) {
    f.throughput = part["throughput_per_second"].get<double>();
  }
}

}  // namespace

absl::StatusOr<PerformanceTarget> ParsePerformanceTarget(std::string_view text) {
  std::string compact;
  for (const char c : text) {
    if (c != ' ') compact += c;
  }
  const size_t at = compact.find_first_of("<>=");
  if (at == std::string::npos) return Invalid(text, "there is no <, <=, > or >=");
  PerformanceTarget target;
  target.text = std::string(text);
  const std::string name = compact.substr(0, at);
  const Metric* metric = nullptr;
  for (const Metric& entry : kMetrics) {
    if (entry.name == name) metric = &entry;
  }
  if (metric == nullptr) return Invalid(text, StrCat("there is no metric '", name, "'"));
  target.metric = metric->metric;
  size_t end = at + 1;
  if (compact[at] == '=') return Invalid(text, "there is no <, <=, > or >=");
  if (end < compact.size() && compact[end] == '=') ++end;
  target.op = compact.substr(at, end - at);
  const char* const last = compact.data() + compact.size();
  const auto [stop, error] = std::from_chars(compact.data() + end, last, target.value);
  if (error != std::errc() || !(target.value >= 0)) {
    return Invalid(text, "a number of at least 0 is expected behind the comparison");
  }
  const std::string_view unit(stop, static_cast<size_t>(last - stop));
  for (const Unit& known : metric->units) {
    if (known.name != unit) continue;
    target.value *= known.factor;
    return target;
  }
  return Invalid(text, StrCat("'", unit, "' is no unit of ", name));
}

MeasuredBy MeasuredByStep(PerformanceMetric metric) { return MetricOf(metric).step; }

absl::Status CheckPerformanceTargets(const gq::v1::JobSpec& spec) {
  const auto& steps = spec.step();
  const bool quantizes =
      steps.empty() || std::find(steps.begin(), steps.end(), "graph_quantize") != steps.end();
  for (const std::string& text : spec.target_performance()) {
    GQ_ASSIGN_OR_RETURN(const PerformanceTarget target, ParsePerformanceTarget(text));
    const auto needs = [&text](std::string_view what, std::string_view hint) {
      return MakeError(Reason::kTargetInvalid, StrCat("performance goal '", text, "' needs ", what),
                       hint);
    };
    if (spec.kind() == gq::v1::JOB_KIND_DRY_RUN) {
      return needs("a model, and a dry run makes none", "Leave --mode dry-run out.");
    }
    const MeasuredBy step = MeasuredByStep(target.metric);
    if (step == MeasuredBy::kBoardRun && spec.stage() != gq::v1::STAGE_EXEC) {
      return needs("a run on a board", "Ask for it with gq run --stage exec.");
    }
    if (step == MeasuredBy::kCompile && spec.stage() == gq::v1::STAGE_QUANTIZE) {
      return needs("a compile", "Ask for it with gq run --stage compile, or exec.");
    }
    if (step == MeasuredBy::kQuantize && !quantizes) {
      return needs("a quantized model", "Let the job have the step graph_quantize.");
    }
  }
  return absl::OkStatus();
}

PerformanceFigures FiguresOf(const std::vector<Json>& parts) {
  PerformanceFigures f;
  // What a search ended with stands inside its part, and so do the models that a board chose from.
  std::vector<const Json*> all;
  for (const Json& part : parts) {
    if (!part.is_object()) continue;
    all.push_back(&part);
    const auto result = part.find("result");
    if (result == part.end() || !result->is_object()) continue;
    for (const auto& [name, section] : result->items()) {
      if (section.is_object()) all.push_back(&section);
    }
  }
  for (const Json* entry : all) {
    const Json& part = *entry;
    if (part.contains("latency_ms")) {
      ReadRun(part, f);
    } else if (part.contains("backend")) {
      ReadCompile(part, f);
    }
    if (const auto bytes = NumberAt(part, "sizes", "quantized_bytes")) f.model_bytes = bytes;
    if (part.contains("sizes") && part.contains("layers") && part["layers"].is_array()) {
      f.bf16_percent = FloatShare(part["layers"]);
    }
  }
  return f;
}

std::vector<PerformanceResult> JudgePerformance(const gq::v1::JobSpec& spec, MeasuredBy step,
                                                const PerformanceFigures& figures) {
  std::vector<PerformanceResult> results;
  for (const std::string& text : spec.target_performance()) {
    absl::StatusOr<PerformanceTarget> target = ParsePerformanceTarget(text);
    if (!target.ok() || MeasuredByStep(target->metric) != step) continue;
    PerformanceResult result;
    result.value = FigureOf(figures, target->metric);
    result.met = result.value && Holds(*result.value, target->op, target->value);
    const auto unknown = figures.unknown.find(target->metric);
    if (!result.value && unknown != figures.unknown.end()) result.not_judged = unknown->second;
    result.simulated = (step == MeasuredBy::kBoardRun && figures.simulated_run) ||
                       (step == MeasuredBy::kCompile && figures.simulated_compile);
    result.target = *std::move(target);
    results.push_back(std::move(result));
  }
  return results;
}

Json PerformanceJson(const std::vector<PerformanceResult>& results) {
  Json list = Json::array();
  for (const PerformanceResult& result : results) {
    Json entry = {{"expression", result.target.text},
                  {"judged", result.not_judged.empty()},
                  {"met", result.met}};
    if (result.value) {
      entry["value"] = *result.value;
    } else {
      entry["reason"] = result.not_judged.empty() ? "not measured" : result.not_judged;
    }
    entry["simulated"] = result.simulated;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string DescribeResult(const PerformanceResult& result) {
  if (!result.not_judged.empty()) {
    return StrCat("Goal ", result.target.text, " not judged: ", result.not_judged);
  }
  std::string text = StrCat("Goal ", result.target.text, result.met ? " met" : " not met");
  if (result.simulated) text += result.met ? " (simulated, not on hardware)" : " (simulated)";
  if (!result.value) return StrCat(text, ": not measured");
  return StrCat(text, ": ", absl::StrFormat("%.4g", *result.value));
}

bool JudgeTargets(const gq::v1::JobSpec& spec, const std::vector<Json>& earlier,
                  const std::set<MeasuredBy>& steps, base::Reporter& reporter, Json& own) {
  if (spec.target_performance().empty()) return true;
  std::vector<Json> parts = earlier;
  parts.push_back(own);
  const PerformanceFigures figures = FiguresOf(parts);
  std::vector<PerformanceResult> results;
  for (const MeasuredBy step : steps) {
    for (PerformanceResult& judged : JudgePerformance(spec, step, figures)) {
      results.push_back(std::move(judged));
    }
  }
  for (const PerformanceResult& result : results) {
    reporter.Log(result.met ? base::LogLevel::kInfo : base::LogLevel::kWarn, "Goal",
                 DescribeResult(result));
  }
  if (!results.empty() && own.is_object()) own["performance_targets"] = PerformanceJson(results);
  return std::none_of(results.begin(), results.end(),
                      [](const PerformanceResult& result) { return result.missed(); });
}

}  // namespace gq::job
