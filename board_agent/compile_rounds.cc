#include "board_agent/compile_rounds.h"

#include <algorithm>

namespace gq::agent {
namespace {

using compile::CompilerOptions;
using compile::CpuBecauseClass;
using compile::PartitionReport;

bool HasClass(const PartitionReport& report, CpuBecauseClass reason_class) {
  return std::any_of(
      report.cpu_reasons.begin(), report.cpu_reasons.end(),
      [&](const compile::CpuReason& reason) { return reason.reason_class == reason_class; });
}

bool Mentions(const PartitionReport& report, std::string_view text) {
  return std::any_of(report.cpu_reasons.begin(), report.cpu_reasons.end(),
                     [&](const compile::CpuReason& reason) {
                       return reason.message.find(text) != std::string::npos;
                     });
}

}  // namespace

std::vector<std::string> ProposeChanges(const PartitionReport& report,
                                        const CompilerOptions& options,
                                        const std::set<std::string>& fixed,
                                        const std::set<std::string>& tried, bool consent) {
  std::vector<std::string> changes;
  const auto propose = [&](const std::string& key, const std::string& value) {
    const std::string change = key + "=" + value;
    const std::string option = key.substr(0, key.find('+'));
    if (fixed.contains(option) || tried.contains(change)) return;
    if (changes.size() < kMostChangesInARound) changes.push_back(change);
  };
  if (report.subgraphs_below_threshold > 0 && options.threshold_gops_percent > 0) {
    propose("threshold_gops_percent", "0");
  }
  // Float layers would run in another precision than on the CPU.
  if (consent && Mentions(report, "float32") && options.f32_to_bf16 == false &&
      !options.f32_to_f16.value_or(false)) {
    propose("enable_f32_to_bf16_conversion", "true");
  }
  // Q/DQ at the edges of the model: the runtime can do them, and inputs and outputs become int8.
  if (consent && Mentions(report, "at the edge of the graph")) {
    propose("fe_args+", "edge-quantization-in-rt=1");
  }
  if (HasClass(report, CpuBecauseClass::kBackEnd) && options.optimize_level != 3) {
    propose("optimize_level", "3");
  }
  if (HasClass(report, CpuBecauseClass::kTiling) && options.tp_size != 2) propose("tp_size", "2");
  return changes;
}

bool IsBetterOffload(const PartitionReport& candidate, const PartitionReport& best) {
  if (candidate.level != best.level) return candidate.level < best.level;
  const double a = candidate.gops_percent.value_or(0);
  const double b = best.gops_percent.value_or(0);
  if (a != b) return a > b;
  return candidate.npu_partitions + candidate.cpu_partitions <
         best.npu_partitions + best.cpu_partitions;
}

}  // namespace gq::agent
