// Everything that a compile left in its cache folder, read back (reference: VE2 workflow, g.3).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/compile/compiler_log.h"
#include "common/compile/cpu_because.h"
#include "common/compile/summary.h"

namespace gq::compile {

// An entry of aie_unsupported_original_ops_with_reasons.json.
struct UnsupportedOperator {
  std::string op_type;
  std::string name;
  std::string reason;
};

// Reads that file; both spellings of its keys (op_type, name; reason, Message) are known. Fails
// with kCompileFailed when it is no JSON list.
absl::StatusOr<std::vector<UnsupportedOperator>> ParseUnsupportedOperators(std::string_view json);

struct CompileOutput {
  std::filesystem::path folder;
  std::string key;
  bool has_rai = false;
  std::optional<CompileSummary> summary;
  CompilerLog log;
  std::vector<UnsupportedOperator> unsupported;
  std::vector<CpuBecause> cpu_because;  // from *.mlir
  int partition_folders = 0;            // vaiml_par_*
  // Files that were there and could not be read, with the reason.
  std::vector<std::string> warnings;
};

// The folder with the files of `key`: CACHE/KEY, CACHE/cache, or CACHE itself, the first that holds
// a summary or a compiled model. Fails with kFileNotFound when none does.
absl::StatusOr<std::filesystem::path> FindCompileFolder(const std::filesystem::path& cache,
                                                        std::string_view key);

// Reads the folder and everything below it. A missing or damaged file is not an error here but
// shows in the fields.
CompileOutput ReadCompileOutput(const std::filesystem::path& folder, std::string_view key);

// Whether the compile succeeded: no error lines in the logs, a compiled model, a final summary. The
// exit status of the tool is no proof, because it falls back to the CPU in silence. Fails with
// kCompileFailed, naming the first error line or what is missing.
absl::Status CheckCompiled(const CompileOutput& output);

}  // namespace gq::compile
