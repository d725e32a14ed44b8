// The "compile" part of a job's report.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/compile/classification.h"
#include "common/compile/compiler_options.h"
#include "common/compile/partition_report.h"

namespace gq::compile {

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

// The options as the report has them.
nlohmann::ordered_json OptionsJson(const CompilerOptions& options);

// The options that a "compile" part tells; nothing when it has none.
std::optional<CompilerOptions> OptionsOfReport(const nlohmann::ordered_json& part);

}  // namespace gq::compile
