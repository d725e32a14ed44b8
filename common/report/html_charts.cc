#include "common/report/html_charts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/base/text.h"
#include "common/report/escape.h"
#include "common/report/svg_chart.h"

namespace gq::report {
namespace {

using base::StrAppend;
using base::StrCat;

constexpr size_t kMostCells = 4800;
constexpr size_t kMostBars = 40;
constexpr size_t kLatencyBins = 40;

// Class of a precision in the page's style; precisions that it does not know share one.
std::string PrecisionClass(const std::string& precision) {
  static const auto& classes = *new std::map<std::string, std::string>{
      {"int8", "p-int8"},   {"uint8", "p-int8"},    {"vint8", "p-int8"},   {"xint8", "p-int8"},
      {"bf16", "p-bf16"},   {"bfloat16", "p-bf16"}, {"fp16", "p-fp16"},    {"float16", "p-fp16"},
      {"float", "p-float"}, {"fp32", "p-float"},    {"float32", "p-float"}};
  std::string lower;
  for (const char c : precision) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto found = classes.find(lower);
  return found == classes.end() ? "p-other" : found->second;
}

std::vector<double> Numbers(const Json& array) {
  std::vector<double> numbers;
  for (const Json& value : array) {
    if (value.is_number()) numbers.push_back(value.get<double>());
  }
  return numbers;
}

std::string NotReached(const Json& report, std::string_view key, std::string_view step) {
  return At(report, {key}).is_object() ? "" : StrCat("this job has no result of ", step);
}

}  // namespace

std::string Section(std::string_view heading, std::string_view body) {
  std::string id;
  for (const char c : heading) {
    id += std::isalnum(static_cast<unsigned char>(c))
              ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
              : '-';
  }
  return StrCat("<section aria-labelledby=\"", id, "\">\n<h2 id=\"", id, "\">", EscapeHtml(heading),
                "</h2>\n", body, "</section>\n");
}

std::string Absent(std::string_view reason) {
  return StrCat("<p class=\"absent\">Not shown: ", EscapeHtml(reason), ".</p>\n");
}

std::string PrecisionMapSection(const Json& report) {
  const Json& layers = ArrayAt(report, {"graph_quantize", "layers"});
  if (layers.empty()) {
    const std::string reason = NotReached(report, "graph_quantize", "Graph Quantize");
    return Section("Precision map", Absent(reason.empty() ? "the report lists no layers" : reason));
  }
  std::vector<Cell> cells;
  std::map<std::string, int> counts;
  for (const Json& layer : layers) {
    const std::string precision = TextAt(layer, {"precision"});
    ++counts[precision];
    if (cells.size() == kMostCells) continue;
    cells.push_back(
        {PrecisionClass(precision), StrCat(TextAt(layer, {"node"}), " (", TextAt(layer, {"op"}),
                                           "): ", precision, ", ", TextAt(layer, {"reason"}))});
  }
  std::string body = StripChart("Precision of every node, in graph order", cells);
  body += "<ul class=\"legend\">\n";
  for (const auto& [precision, count] : counts) {
    StrAppend(&body, "<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"",
              PrecisionClass(precision), "\" width=\"12\" height=\"12\"/></svg> ",
              EscapeHtml(precision), ": ", count, "</li>\n");
  }
  body += "</ul>\n";
  if (layers.size() > kMostCells) {
    StrAppend(&body, "<p>The first ", kMostCells, " of ", layers.size(), " nodes.</p>\n");
  }
  return Section("Precision map", body);
}

std::string LayerErrorSection(const Json& report) {
  const Json& errors = ArrayAt(report, {"evaluate", "layer_errors"});
  if (errors.empty()) {
    const std::string reason = NotReached(report, "evaluate", "Evaluate");
    return Section("Error by layer",
                   Absent(reason.empty() ? "the error of single layers was not measured" : reason));
  }
  std::vector<Bar> bars;
  for (const Json& error : errors) {
    if (const auto snr = NumberAt(error, {"snr_db"})) {
      bars.push_back({StrCat(TextAt(error, {"tensor"}), " (", TextAt(error, {"op"}), ")"), *snr});
    }
  }
  std::stable_sort(bars.begin(), bars.end(),
                   [](const Bar& a, const Bar& b) { return a.value < b.value; });
  std::string body = "<p>Signal to noise against FP32, worst first.</p>\n";
  if (bars.size() > kMostBars) {
    StrAppend(&body, "<p>The worst ", kMostBars, " of ", bars.size(), " tensors.</p>\n");
    bars.resize(kMostBars);
  }
  return Section("Error by layer", body + BarChart("Signal to noise by layer", "dB", bars));
}

std::string ScatterSection(const Json& report) {
  std::string body;
  for (const Json& output : ArrayAt(report, {"evaluate", "outputs"})) {
    std::vector<Point> points;
    for (const Json& pair : ArrayAt(output, {"scatter"})) {
      if (pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number()) {
        points.push_back({pair[0].get<double>(), pair[1].get<double>()});
      }
    }
    if (points.empty()) continue;
    const std::string name = TextAt(output, {"name"});
    StrAppend(&body, "<h3>", EscapeHtml(name), "</h3>\n",
              ScatterChart(StrCat("FP32 against quantized values of output ", name), "FP32",
                           "quantized", points, /*diagonal=*/true));
  }
  if (body.empty()) {
    const std::string reason = NotReached(report, "evaluate", "Evaluate");
    body = Absent(reason.empty() ? "no values of outputs were sampled" : reason);
  }
  return Section("Outputs, FP32 against quantized", body);
}

std::string ExplorationSection(const Json& report) {
  std::vector<Point> points;
  const Json& trace = ArrayAt(report, {"explore", "trace"});
  for (const Json& step : trace) {
    const auto share = NumberAt(step, {"share"});
    const auto value = NumberAt(step, {"value"});
    if (share && value) points.push_back({*share * 100, *value});
  }
  if (points.empty()) return Section("Exploration", Absent("this job did not explore"));
  const std::string metric = TextAt(report, {"explore", "metric"});
  return Section("Exploration", LineChart("Accuracy against share of promoted layers",
                                          "share of promoted layers, %", metric, points));
}

std::string TensorHistogramSection(const Json& report) {
  const Json& histogram = At(report, {"graph_quantize", "histogram"});
  const std::vector<double> counts = Numbers(ArrayAt(histogram, {"counts"}));
  const auto low = NumberAt(histogram, {"min"});
  const auto high = NumberAt(histogram, {"max"});
  if (counts.empty() || !low || !high || !(*low < *high) || !std::isfinite(*low) ||
      !std::isfinite(*high)) {
    return Section("Values of a tensor",
                   Absent("the calibration method of this job keeps no histogram"));
  }
  const std::string tensor = TextAt(histogram, {"tensor"});
  return Section("Values of a tensor",
                 StrCat("<p>Tensor <code>", EscapeHtml(tensor),
                        "</code>; the lines mark the range that the integers hold.</p>\n",
                        HistogramChart(StrCat("Values of tensor ", tensor), "value", *low, *high,
                                       counts, Numbers(ArrayAt(histogram, {"clip"})))));
}

std::string LatencySection(const Json& report) {
  const std::vector<double> samples = Numbers(ArrayAt(report, {"board_run", "samples_ms"}));
  if (samples.size() < 2) return Section("Latency", Absent("this job ran on no board"));
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  const double span = *high > *low ? *high - *low : 1;
  std::vector<double> counts(kLatencyBins);
  for (double sample : samples) {
    const double place = (sample - *low) / span * static_cast<double>(kLatencyBins);
    counts[std::min(kLatencyBins - 1, static_cast<size_t>(place))] += 1;
  }
  std::string body =
      HistogramChart("Distribution of the latency", "latency, ms", *low, *low + span, counts, {});
  if (TrueAt(report, {"board_run", "simulated"})) {
    body = "<p class=\"simulated\">Simulated: no hardware was measured.</p>\n" + body;
  }
  return Section("Latency", body);
}

}  // namespace gq::report
