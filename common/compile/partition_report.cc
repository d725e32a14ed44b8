#include "common/compile/partition_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/text.h"

namespace gq::compile {
namespace {

constexpr double kNearlyFull = 98.0;
constexpr double kAboutAll = 99.5;

void AddUnique(std::vector<std::string>& list, const std::string& text) {
  if (text.empty() || std::find(list.begin(), list.end(), text) != list.end()) return;
  list.push_back(text);
}

// Reasons with equal messages are one entry.
class ReasonCollector {
 public:
  // The MLIR names operators `onnx.Conv`, the list of unsupported ones `Conv`.
  void Add(std::string_view op, const std::string& layer, const std::string& message) {
    constexpr std::string_view kPrefix = "onnx.";
    if (op.starts_with(kPrefix)) op.remove_prefix(kPrefix.size());
    auto it = std::find_if(reasons_.begin(), reasons_.end(),
                           [&](const CpuReason& r) { return r.message == message; });
    if (it == reasons_.end()) {
      it = reasons_.insert(
          it, CpuReason{ClassifyCpuBecause(message), {}, {}, message, RemedyFor(message)});
    }
    AddUnique(it->operators, std::string(op));
    AddUnique(it->layers, layer);
  }
  std::vector<CpuReason> Take() {
    for (CpuReason& reason : reasons_) std::sort(reason.operators.begin(), reason.operators.end());
    return std::move(reasons_);
  }

 private:
  std::vector<CpuReason> reasons_;
};

int CountNpuPartitions(const CompileOutput& output, std::vector<std::string>& warnings) {
  const std::optional<int> logged = output.log.partitions;
  const std::optional<int> summed =
      output.summary ? (output.summary->npu_partitions ? output.summary->npu_partitions
                                                       : output.summary->subgraphs_offloaded)
                     : std::nullopt;
  const int count = logged.value_or(summed.value_or(output.partition_folders));
  if (logged && summed && *logged != *summed) {
    warnings.push_back(base::StrCat("the log counts ", *logged, " partitions, the summary ",
                                    *summed, " on the NPU"));
  } else if (output.partition_folders > 0 && count != output.partition_folders) {
    warnings.push_back(base::StrCat("the compiler counts ", count, " NPU partitions and left ",
                                    output.partition_folders, " partition folders"));
  }
  return count;
}

template <typename T>
void Put(nlohmann::ordered_json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

nlohmann::ordered_json OptionsJson(const CompilerOptions& options) {
  nlohmann::ordered_json json;
  json["device"] = options.device;
  json["optimize_level"] = options.optimize_level;
  Put(json, "enable_f32_to_bf16_conversion", options.f32_to_bf16);
  Put(json, "enable_f32_to_f16_conversion", options.f32_to_f16);
  json["fe_args"] = base::StrJoin(options.fe_args, " ");
  json["dp_size"] = options.dp_size;
  json["tp_size"] = options.tp_size;
  json["threshold_gops_percent"] = options.threshold_gops_percent;
  json["preferred_data_storage"] = options.preferred_data_storage;
  json["keep_outputs"] = options.keep_outputs;
  json["logging_level"] = options.logging_level;
  return json;
}

}  // namespace

std::string_view OffloadLevelName(OffloadLevel level) {
  switch (level) {
    case OffloadLevel::kFull:
      return "full";
    case OffloadLevel::kNearlyFull:
      return "nearly_full";
    case OffloadLevel::kFew:
      return "few_partitions";
    case OffloadLevel::kMissed:
      break;
  }
  return "missed";
}

OffloadLevel RateOffload(int npu_partitions, double gops_percent) {
  if (npu_partitions == 1 && gops_percent >= 100.0) return OffloadLevel::kFull;
  if (npu_partitions == 1 && gops_percent > kNearlyFull) return OffloadLevel::kNearlyFull;
  if (npu_partitions >= 1 && npu_partitions < 3 && gops_percent >= kAboutAll) {
    return OffloadLevel::kFew;
  }
  return OffloadLevel::kMissed;
}

PartitionReport MakePartitionReport(const CompileOutput& output) {
  PartitionReport report;
  report.warnings = output.warnings;
  report.npu_partitions = CountNpuPartitions(output, report.warnings);
  if (const auto& summary = output.summary) {
    report.cpu_partitions = summary->cpu_partitions.value_or(0);
    report.subgraphs_below_threshold = summary->subgraphs_below_threshold.value_or(0);
    report.operators = summary->operators;
    report.gops = summary->gops;
    if (const auto& share = summary->operators_offloaded) {
      report.operators_offloaded = share->count;
      report.operators_percent = share->percent;
    }
    if (const auto& share = summary->gops_offloaded) report.gops_percent = share->percent;
    if (summary->subgraphs_with_errors.value_or(0) > 0) {
      report.warnings.push_back(base::StrCat(*summary->subgraphs_with_errors,
                                             " subgraphs failed to compile and run on the CPU"));
    }
    if (report.subgraphs_below_threshold > 0) {
      report.warnings.push_back(base::StrCat(
          report.subgraphs_below_threshold, " subgraphs are supported but stay on the CPU: below ",
          summary->threshold_percent.value_or(20), " % of the operations"));
    }
  }
  // The older layout has no partition counts; what is not offloaded is in at least one partition.
  if (report.cpu_partitions == 0 && report.operators && report.operators_offloaded &&
      *report.operators_offloaded < *report.operators &&
      !(output.summary && output.summary->cpu_partitions)) {
    report.cpu_partitions = 1;
  }
  ReasonCollector reasons;
  for (const CpuBecause& because : output.cpu_because) {
    reasons.Add(because.op, because.layer, because.message);
  }
  for (const UnsupportedOperator& op : output.unsupported) {
    reasons.Add(op.op_type, op.name, op.reason);
  }
  for (const auto& [message, count] : output.log.break_reasons) reasons.Add("", "", message);
  report.cpu_reasons = reasons.Take();
  report.level = RateOffload(report.npu_partitions, report.gops_percent.value_or(0));
  return report;
}

std::string CompileReportJson(const CompileFacts& facts, const Classification& classification,
                              const CompilerOptions& options, const PartitionReport& report) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["simulated"] = facts.simulated;
  json["backend"] = facts.backend;
  json["device"] = facts.device;
  json["class"] = ModelClassName(classification.model_class);
  json["reasons"] = classification.reasons;
  json["options"] = OptionsJson(options);
  json["partitions"] = {{"npu", report.npu_partitions}, {"cpu", report.cpu_partitions}};
  Json offload = Json::object();
  Put(offload, "operators_percent", report.operators_percent);
  Put(offload, "gops_percent", report.gops_percent);
  Put(offload, "operators", report.operators);
  Put(offload, "operators_offloaded", report.operators_offloaded);
  Put(offload, "gops", report.gops);
  offload["subgraphs_below_threshold"] = report.subgraphs_below_threshold;
  offload["goal"] = OffloadLevelName(report.level);
  json["offload"] = std::move(offload);
  json["cpu_because"] = Json::array();
  for (const CpuReason& reason : report.cpu_reasons) {
    json["cpu_because"].push_back({{"class", CpuBecauseClassName(reason.reason_class)},
                                   {"operators", reason.operators},
                                   {"layers", reason.layers},
                                   {"message", reason.message},
                                   {"remedy", reason.remedy}});
  }
  json["warnings"] = report.warnings;
  json["seconds"] = Json::object();
  for (const auto& [phase, value] : facts.seconds) json["seconds"][phase] = value;
  // Names out of models may be no valid UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gq::compile
