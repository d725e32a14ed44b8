// `--target-performance`: goals about speed, offload and size.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/reporter.h"
#include "gq/v1/job_service.pb.h"
#include "nlohmann/json.hpp"

namespace gq::job {

enum class PerformanceMetric {
  kLatencyP50,  // milliseconds
  kLatencyP99,
  kThroughput,  // inferences a second
  kOffload,     // percent of the operations
  kPartitions,  // on NPU and CPU together
  kModelSize,   // bytes of the quantized file
  kBf16Share,   // percent of the compute layers that are not integer
};

struct PerformanceTarget {
  PerformanceMetric metric = PerformanceMetric::kLatencyP50;
  std::string op;    // `<`, `<=`, `>`, `>=`
  double value = 0;  // in the metric's unit
  std::string text;  // as it was given
};

// `METRIC OP NUMBER[UNIT]`, e.g. `latency_p50<5ms`, `throughput>=100`, `offload>=98%`,
// `model_size<4MB` (also KB, GB, KiB, MiB, GiB), `latency_p99<800us`. Fails with kTargetInvalid.
absl::StatusOr<PerformanceTarget> ParsePerformanceTarget(std::string_view text);

// Where a metric is measured.
enum class MeasuredBy { kQuantize, kCompile, kBoardRun };
MeasuredBy MeasuredByStep(PerformanceMetric metric);

// Every target of the request can be read and is measured by a step that the job has. Fails with
// kTargetInvalid, naming what to ask for.
absl::Status CheckPerformanceTargets(const gq::v1::JobSpec& spec);

// One target against its figure.
struct PerformanceResult {
  PerformanceTarget target;
  std::optional<double> value;  // absent when it was not measured
  bool met = false;
  bool simulated = false;  // met on a simulated board, which is not met on hardware
  // Why the goal is neither met nor missed; empty when it was judged.
  std::string not_judged;

  bool missed() const { return !met && not_judged.empty(); }
};

// The figures of a job as far as its steps have measured them: parts of the report in any order
// (docs/report.md); the latest counts. A figure that a CPU gave in place of the NPU does not count
// as one.
struct PerformanceFigures {
  std::optional<double> latency_p50_ms, latency_p99_ms, throughput, offload_percent, partitions,
      model_bytes, bf16_percent;
  // Metrics that nothing could be found out about, and why: the tool does not tell them.
  std::map<PerformanceMetric, std::string> unknown;
  bool simulated_compile = false;
  bool simulated_run = false;
};
PerformanceFigures FiguresOf(const std::vector<nlohmann::ordered_json>& parts);

// Judges those targets that `step` measures.
std::vector<PerformanceResult> JudgePerformance(const gq::v1::JobSpec& spec, MeasuredBy step,
                                                const PerformanceFigures& figures);

// For the report: `[{"expression","judged","met","value" or "reason","simulated"}]`.
nlohmann::ordered_json PerformanceJson(const std::vector<PerformanceResult>& results);
// `Goal latency_p50<5ms met (simulated, not on hardware): 3.2`
std::string DescribeResult(const PerformanceResult& result);

// Judges those targets that `steps` measure, by the parts of earlier steps and by `own`, the part
// of this one: adds `performance_targets` to it and logs each. False when one is missed.
bool JudgeTargets(const gq::v1::JobSpec& spec, const std::vector<nlohmann::ordered_json>& earlier,
                  const std::set<MeasuredBy>& steps, base::Reporter& reporter,
                  nlohmann::ordered_json& own);

}  // namespace gq::job
