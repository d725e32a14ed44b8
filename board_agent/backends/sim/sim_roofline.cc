#include "board_agent/backends/sim/sim_roofline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/compile/device.h"
#include "common/graph/tensor_view.h"

namespace gq::agent {
namespace {

// The device: 4 rows of cores, clock as the compiler prints it. Rates are assumptions of this
// model.
constexpr double kClockHz = 1267e6;
constexpr int kRows = 4;
constexpr double kInt8MacsPerCycle = 512;  // of one core
constexpr double kFloatMacsPerCycle = 128;
constexpr double kSustained = 0.35;  // share of the peak
constexpr double kBytesPerSecond = 50e9;
constexpr double kLaunchSeconds = 25e-6;
constexpr double kCpuOpsPerSecond = 10e9;
constexpr double kHandOverSeconds = 5e-6;

// Weights as they lie on the device: integers as they are, floats with two bytes.
double WeightBytes(const graph::Model& model) {
  double bytes = 0;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    const auto size = static_cast<double>(model.DataBytes(tensor));
    bytes += tensor.data_type() == onnx::TensorProto::FLOAT ? size / 2 : size;
  }
  return bytes;
}

}  // namespace

SimLatency EstimateLatency(const graph::Model& model, const SimPartitioning& partitioning,
                           const compile::CompilerOptions& options) {
  const int columns = compile::ColumnsUsed(options.tp_size, 1);
  const double cycles = kClockHz * columns * kRows * kSustained;
  const double weight_bytes = WeightBytes(model);
  const auto all_ops = static_cast<double>(std::max<int64_t>(partitioning.ops, 1));
  double seconds = 0;
  for (const SimSubgraph& subgraph : partitioning.subgraphs) {
    if (subgraph.below_threshold || subgraph.above_max) continue;
    const auto int8_ops = static_cast<double>(subgraph.int8_ops);
    const auto ops = static_cast<double>(subgraph.ops);
    const double compute = int8_ops / (2 * kInt8MacsPerCycle * cycles) +
                           (ops - int8_ops) / (2 * kFloatMacsPerCycle * cycles);
    const double memory = weight_bytes * ops / all_ops / kBytesPerSecond;
    seconds += std::max(compute, memory) + kLaunchSeconds;
  }
  seconds += (all_ops - static_cast<double>(partitioning.offloaded_ops())) / kCpuOpsPerSecond;
  seconds += partitioning.cpu_partitions * kHandOverSeconds;

  const nlohmann::ordered_json conditions = {{"model", "roofline, no hardware"},
                                             {"columns", columns},
                                             {"rows", kRows},
                                             {"clock_mhz", kClockHz / 1e6},
                                             {"int8_macs_per_cycle", kInt8MacsPerCycle},
                                             {"float_macs_per_cycle", kFloatMacsPerCycle},
                                             {"sustained_share", kSustained},
                                             {"memory_gb_per_s", kBytesPerSecond / 1e9},
                                             {"launch_us", kLaunchSeconds * 1e6},
                                             {"cpu_gops_per_s", kCpuOpsPerSecond / 1e9},
                                             {"hand_over_us", kHandOverSeconds * 1e6}};
  return {seconds * 1e3, conditions.dump()};
}

}  // namespace gq::agent
