// The report of a job (docs/report.md): one JSON object joined from what its steps reported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gq/v1/job_service.pb.h"

namespace gq::report {

// Version of the report's schema; it grows when a reader of the version before could be misled.
inline constexpr int kReportSchema = 1;

struct StepPart {
  int32_t step_index = 0;   // in Job.steps
  std::string report_json;  // the step's part, a JSON object
};

// Key of a step's part in the report, e.g. `graph_quantize`.
std::string_view StepKey(gq::v1::StepKind kind);

// The report of `job`, of a running one what is known so far, as indented JSON text. Parts come
// from untrusted models by way of workers: one that is no JSON object is left out, with a warning
// in the report. Warnings of all parts are gathered at the top as well, each with the step it came
// from. Works on memory only, never fails.
std::string MergeReport(const gq::v1::Job& job, std::span<const StepPart> parts);

}  // namespace gq::report
