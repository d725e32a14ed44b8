#include "server/worker/finish.h"

#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "server/worker/summary.h"

namespace gq::worker {
namespace {

constexpr int kGoalNotMet = 10;

}  // namespace

absl::StatusOr<std::optional<StagedOutput>> StageReport(const VerbOptions& options) {
  if (options.report.empty()) return std::nullopt;
  GQ_ASSIGN_OR_RETURN(StagedOutput staged, StagedOutput::Create(options.report));
  return std::optional<StagedOutput>(std::move(staged));
}

absl::StatusOr<StagedOutput> StageModel(const VerbOptions& options, const JobInputs& inputs,
                                        std::string_view ending) {
  const std::filesystem::path output =
      options.output.empty() ? base::StrCat(inputs.model.stem().string(), ending) : options.output;
  for (const auto& input : {std::optional(inputs.model), inputs.reference}) {
    std::error_code ignored;
    if (input && std::filesystem::equivalent(*input, output, ignored)) {
      return base::MakeError(base::Reason::kFileUnwritable,
                             base::StrCat(output.string(), ": this is the model that was given"),
                             "give another name with --output");
    }
  }
  return StagedOutput::Create(output);
}

absl::StatusOr<int> Finish(const Pipeline& pipeline, ForegroundReporter& reporter,
                           std::optional<StagedOutput> report, std::optional<StagedOutput> output) {
  SummaryFiles files;
  if (report) {
    GQ_RETURN_IF_ERROR(base::WriteFileAtomically(report->path(), pipeline.Report()));
  }
  if (output) {
    GQ_RETURN_IF_ERROR(output->Commit());
    files.model = output->output().string();
  }
  if (report) {
    GQ_RETURN_IF_ERROR(report->Commit());
    files.report = report->output().string();
  }
  const int code = pipeline.job().verdict() == gq::v1::VERDICT_GOAL_NOT_MET ? kGoalNotMet : 0;
  reporter.Finish(SummaryText(pipeline, files), SummaryJson(pipeline, files, code));
  return code;
}

}  // namespace gq::worker
