#include "common/compile/compile_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::compile {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxCpuBecause = 10000;
constexpr char kFinalSummary[] = "final-vaiml-pass-summary.txt";
constexpr char kReasons[] = "aie_unsupported_original_ops_with_reasons.json";

std::string Text(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto it = object.find(key);
    if (it != object.end() && it->is_string()) return it->get<std::string>();
  }
  return "";
}

// Only the counts: the logs of the compiler tell its errors and kernels.
void AddMissingCounts(const CompilerLog& more, CompilerLog& log) {
  if (!log.partitions) log.partitions = more.partitions;
  if (!log.aie_percent) log.aie_percent = more.aie_percent;
  log.operators.insert(more.operators.begin(), more.operators.end());
  log.subgraphs.insert(more.subgraphs.begin(), more.subgraphs.end());
  log.no_device |= more.no_device;
}

void ReadOne(const fs::path& path, CompileOutput& output) {
  const std::string name = path.filename().string();
  const bool is_log =
      name == "AIECompiler.log" || name == "aiecompiler-flexml.log" || name == "vaiml_compile.log";
  // What the compiling process printed; holds the counts where the tool does not log them.
  const bool is_session = name == "session.log";
  const bool is_mlir = path.extension() == ".mlir";
  const bool is_reasons = name == kReasons;
  const bool is_summary = name == kFinalSummary;
  if (!is_log && !is_session && !is_mlir && !is_reasons && !is_summary) return;
  const absl::StatusOr<std::string> content = base::ReadFile(path, kMaxFileBytes);
  if (!content.ok()) {
    output.warnings.emplace_back(base::FromAbsl(content.status().message()));
  } else if (is_log) {
    Merge(ParseCompilerLog(*content), output.log);
  } else if (is_session) {
    AddMissingCounts(ParseCompilerLog(*content), output.log);
  } else if (is_mlir) {
    for (CpuBecause& because : ScanCpuBecause(*content)) {
      if (output.cpu_because.size() < kMaxCpuBecause) {
        output.cpu_because.push_back(std::move(because));
      }
    }
  } else if (is_summary) {
    output.summary = ParseSummary(*content);
  } else if (absl::StatusOr<std::vector<UnsupportedOperator>> list =
                 ParseUnsupportedOperators(*content);
             list.ok()) {
    output.unsupported = *std::move(list);
  } else {
    output.warnings.emplace_back(base::FromAbsl(list.status().message()));
  }
}

}  // namespace

absl::StatusOr<std::vector<UnsupportedOperator>> ParseUnsupportedOperators(std::string_view text) {
  const nlohmann::json json =
      nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) {
    return MakeError(Reason::kCompileFailed, base::StrCat(kReasons, " does not hold a list"));
  }
  std::vector<UnsupportedOperator> list;
  for (const nlohmann::json& entry : json) {
    if (!entry.is_object()) continue;
    list.push_back({Text(entry, {"op_type", "OpType", "op"}), Text(entry, {"name", "node_name"}),
                    Text(entry, {"reason", "Message", "message"})});
  }
  return list;
}

absl::StatusOr<fs::path> FindCompileFolder(const fs::path& cache, std::string_view key) {
  const std::string rai = base::StrCat(key, ".rai");
  for (const fs::path& folder : {cache / key, cache / "cache", cache}) {
    std::error_code error;
    if (fs::exists(folder / kFinalSummary, error) || fs::exists(folder / rai, error)) return folder;
  }
  return MakeError(Reason::kFileNotFound,
                   base::StrCat(cache.string(), ": holds no result of a compile"),
                   "Give the cache folder of the compiler.");
}

CompileOutput ReadCompileOutput(const fs::path& folder, std::string_view key) {
  CompileOutput output;
  output.folder = folder;
  output.key = std::string(key);
  std::error_code error;
  output.has_rai = fs::is_regular_file(folder / base::StrCat(key, ".rai"), error);
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const bool is_link = it->is_symlink();
    if (it->is_directory() && !is_link && it.depth() == 0 &&
        it->path().filename().string().starts_with("vaiml_par_")) {
      ++output.partition_folders;
    }
    if (it->is_regular_file() && !is_link) files.push_back(it->path());
  }
  if (error) output.warnings.push_back(base::StrCat(folder.string(), ": ", error.message()));
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) ReadOne(path, output);
  return output;
}

absl::Status CheckCompiled(const CompileOutput& output) {
  if (!output.log.errors.empty()) {
    const size_t more = output.log.errors.size() - 1;
    return MakeError(Reason::kCompileFailed,
                     base::StrCat("the compiler reports: ", output.log.errors.front(),
                                  more > 0 ? base::StrCat(" (and ", more, " more)") : ""),
                     "The whole log is among the results: compile/AIECompiler.log.");
  }
  if (!output.has_rai) {
    return MakeError(Reason::kCompileFailed,
                     base::StrCat("the compiler left no ", output.key, ".rai"),
                     "See the log of the compiler among the results.");
  }
  if (!output.summary) {
    return MakeError(Reason::kCompileFailed, "the compiler left no final summary",
                     "See the log of the compiler among the results.");
  }
  return absl::OkStatus();
}

}  // namespace gq::compile
