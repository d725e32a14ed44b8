// The text summary of the VAIML pass: `final-vaiml-pass-summary.txt` (and the preliminary one).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gq::compile {

// `count` of the model and the percentage that is printed beside it. Percentages are never computed
// here: the tool works on figures with more digits than it prints.
template <typename T>
struct Share {
  T count{};
  double percent = 0;
};

struct SubgraphStats {
  std::string name;  // vaiml_par_0
  std::string type;  // npu
  std::optional<Share<int64_t>> operators;
  std::optional<Share<double>> gops;
  std::optional<int64_t> ops;
  std::optional<double> int8_ops_percent;
  // As declared in the ONNX graph; not what the device uses.
  std::optional<double> fp32_ops_percent;
};

struct CompileTimes {
  std::optional<double> frontend;
  std::optional<double> backend;  // with the AIE compile inside
  std::optional<double> aie_compile;
  std::optional<double> overhead;
  std::optional<double> total;
};

// Every line is optional: two layouts exist, and versions add and drop lines.
struct CompileSummary {
  std::optional<std::string> model;
  std::optional<std::string> device;  // `ve2-xc2ve3858`, or `ve2 (part number: xc2ve3858)`
  std::optional<std::string> model_data_type;
  std::optional<std::string> device_data_type;
  std::optional<std::string> npu_frequency;
  std::optional<std::string> flexml_version;
  std::optional<int> dp_size;
  std::optional<int> tp_size;
  std::optional<int> optimize_level;
  std::optional<int64_t> operators;
  std::optional<double> gops;
  std::optional<Share<int64_t>> operators_supported;
  std::optional<Share<double>> gops_supported;
  std::optional<int> subgraphs_supported;
  std::optional<Share<int64_t>> operators_offloaded;
  std::optional<Share<double>> gops_offloaded;
  std::optional<int> subgraphs_offloaded;
  std::optional<int> npu_partitions;
  std::optional<int> cpu_partitions;
  std::optional<int> subgraphs_with_errors;
  std::optional<int> threshold_percent;
  std::optional<int> subgraphs_below_threshold;
  std::optional<int> max_subgraphs;
  std::optional<int> subgraphs_above_max;
  std::vector<SubgraphStats> subgraphs;
  CompileTimes seconds;
};

// Reads what it recognises, in either layout; the rest is left out. Never fails.
CompileSummary ParseSummary(std::string_view text);

}  // namespace gq::compile
