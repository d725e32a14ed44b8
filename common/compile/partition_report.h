// The partition report: what runs on the NPU, what stays on the CPU, why, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/compile/classification.h"
#include "common/compile/compile_output.h"
#include "common/compile/compiler_options.h"

namespace gq::compile {

// How close an offload is to the goal, best first.
enum class OffloadLevel {
  kFull,        // one partition with all of the operations
  kNearlyFull,  // one partition with more than 98 %
  kFew,         // fewer than three partitions with about all
  kMissed,
};
// `full`, `nearly_full`, `few_partitions`, `missed`.
std::string_view OffloadLevelName(OffloadLevel level);

// One reason for which layers stay on the CPU.
struct CpuReason {
  CpuBecauseClass reason_class = CpuBecauseClass::kUnclassified;
  std::vector<std::string> operators;  // types, sorted
  std::vector<std::string> layers;     // in order of appearance
  std::string message;                 // verbatim
  std::string remedy;
};

struct PartitionReport {
  int npu_partitions = 0;
  int cpu_partitions = 0;
  int subgraphs_below_threshold = 0;
  std::optional<int64_t> operators;
  std::optional<int64_t> operators_offloaded;
  std::optional<double> operators_percent;
  std::optional<double> gops;
  std::optional<double> gops_percent;  // offloaded, not merely supported
  OffloadLevel level = OffloadLevel::kMissed;
  std::vector<CpuReason> cpu_reasons;
  std::vector<std::string> warnings;
};

// Numbers come from the tool and are not recomputed. NPU partitions: the log's `Partition
// completed`, else the summary, else the folders; where they disagree a warning says so.
PartitionReport MakePartitionReport(const CompileOutput& output);

OffloadLevel RateOffload(int npu_partitions, double gops_percent);

// What a backend adds to the report.
struct CompileFacts {
  bool simulated = false;
  std::string backend;
  std::string device;
  std::vector<std::pair<std::string, double>> seconds;  // by phase
};

// The "compile" fragment of a job's report as JSON text (docs/report.md).
std::string CompileReportJson(const CompileFacts& facts, const Classification& classification,
                              const CompilerOptions& options, const PartitionReport& report);

}  // namespace gq::compile
