// The end of a verb: report and output in their places, the summary, the exit code.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/worker/foreground_reporter.h"
#include "server/worker/pipeline.h"
#include "server/worker/staged_output.h"
#include "server/worker/steps/job_inputs.h"
#include "server/worker/verbs.h"

namespace gq::worker {

// The place of --report; nullopt without it.
absl::StatusOr<std::optional<StagedOutput>> StageReport(const VerbOptions& options);

// The place of the model that a verb makes: --output, else the name of the user's model with
// another ending, in the current folder.
absl::StatusOr<StagedOutput> StageModel(const VerbOptions& options, const JobInputs& inputs,
                                        std::string_view ending);

// Writes the report of a pipeline that has run, moves the output (if any) to its place and shows
// the summary. 10 when the goal was not met, else 0. The report is written before any output is
// moved, so that a full disk leaves neither.
absl::StatusOr<int> Finish(const Pipeline& pipeline, ForegroundReporter& reporter,
                           std::optional<StagedOutput> report, std::optional<StagedOutput> output);

}  // namespace gq::worker
