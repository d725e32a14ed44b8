// The partition report: what runs on the NPU, what stays on the CPU, why, and what to do about it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/compile/compile_output.h"

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

// The report of a finished compile: `folder` is the cache folder or the one with its files; the key
// is the stem of the .rai file in it. Fails with kFileNotFound, and with kCompileFailed when the
// compile did not succeed.
absl::StatusOr<PartitionReport> AnalyzeCompiled(const std::filesystem::path& folder);

OffloadLevel RateOffload(int npu_partitions, double gops_percent);

// The report in words, a line each: partitions and offload, then every reason for the CPU with its
// layers (the first few) and its remedy.
std::vector<std::string> DescribePartitions(const PartitionReport& report);

// `partitions`, `offload`, `cpu_because`, `warnings` of the "compile" part of a job's report
// (docs/report.md).
nlohmann::ordered_json PartitionJson(const PartitionReport& report);

}  // namespace gq::compile
