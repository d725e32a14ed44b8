#include "common/compile/partition_report.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::compile {
namespace {

constexpr double kNearlyFull = 98.0;
constexpr double kAboutAll = 99.5;
constexpr size_t kLayersInText = 5;

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
  if (report.npu_partitions == 0) {
    report.warnings.emplace_back("nothing runs on the NPU: the whole model stays on the CPU");
  }
  report.level = RateOffload(report.npu_partitions, report.gops_percent.value_or(0));
  return report;
}

absl::StatusOr<PartitionReport> AnalyzeCompiled(const std::filesystem::path& folder) {
  std::error_code error;
  std::string key;
  std::filesystem::path found;
  for (auto it = std::filesystem::recursive_directory_iterator(folder, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    const bool is_final = it->path().filename() == "final-vaiml-pass-summary.txt";
    const bool is_rai = it->path().extension() == ".rai";
    if (is_rai) key = it->path().stem().string();
    if ((is_rai || is_final) && found.empty()) found = it->path().parent_path();
  }
  if (found.empty()) {
    return base::MakeError(base::Reason::kFileNotFound,
                           base::StrCat(folder.string(), ": holds no result of a compile"),
                           "Give the cache folder of the compiler, or compile/ of a job.");
  }
  const CompileOutput output = ReadCompileOutput(found, key);
  GQ_RETURN_IF_ERROR(CheckCompiled(output));
  return MakePartitionReport(output);
}

std::vector<std::string> DescribePartitions(const PartitionReport& report) {
  std::string text =
      base::StrCat(report.npu_partitions, report.npu_partitions == 1 ? " partition" : " partitions",
                   " on the NPU, ", report.cpu_partitions, " on the CPU");
  if (report.operators && report.operators_offloaded && report.operators_percent) {
    text += absl::StrFormat("; %d of %d operators (%.3f %%)", *report.operators_offloaded,
                            *report.operators, *report.operators_percent);
  }
  if (report.gops_percent) {
    text += absl::StrFormat(" with %.3f %% of the operations offloaded", *report.gops_percent);
  }
  std::vector<std::string> lines = {std::move(text)};
  for (const CpuReason& reason : report.cpu_reasons) {
    const size_t shown = std::min(reason.layers.size(), kLayersInText);
    std::string layers = base::StrJoin(
        std::vector<std::string>(reason.layers.begin(),
                                 reason.layers.begin() + static_cast<std::ptrdiff_t>(shown)),
        ", ");
    if (reason.layers.size() > shown) {
      base::StrAppend(&layers, " and ", reason.layers.size() - shown, " more");
    }
    if (!layers.empty()) layers = base::StrCat(" (", layers, ")");
    lines.push_back(base::StrCat("On the CPU [", CpuBecauseClassName(reason.reason_class),
                                 "]: ", reason.message, layers, "; remedy: ", reason.remedy));
  }
  return lines;
}

nlohmann::ordered_json PartitionJson(const PartitionReport& report) {
  using Json = nlohmann::ordered_json;
  Json json;
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
  return json;
}

}  // namespace gq::compile
