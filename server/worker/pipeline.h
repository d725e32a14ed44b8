// Steps one after another in the foreground, logged and reported as the service does it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gq/v1/job_service.pb.h"
#include "nlohmann/json.hpp"
#include "server/worker/foreground_reporter.h"
#include "server/worker/steps/step_log.h"

namespace gq::worker {

class Pipeline {
 public:
  // Returns the step's fragment of the report.
  using StepFunction = std::function<absl::StatusOr<nlohmann::json>(StepLog& log)>;

  Pipeline(gq::v1::JobSpec spec, ForegroundReporter& reporter);

  void Add(gq::v1::StepKind kind, std::string title, StepFunction function);

  // Runs the steps in order and stops at the first error, which it returns after it was logged.
  absl::Status Run();

  void SetVerdict(gq::v1::Verdict verdict) { job_.set_verdict(verdict); }

  // The report as JSON text (docs/report.md).
  std::string Report() const;
  // Fragment of a step that has run; null when there is none.
  const nlohmann::json* Part(gq::v1::StepKind kind) const;
  // Every warning, with the title of the step it came from.
  const std::vector<std::string>& warnings() const { return warnings_; }
  const gq::v1::Job& job() const { return job_; }

 private:
  struct PipelineStep {
    gq::v1::StepKind kind;
    std::string title;
    StepFunction function;
    nlohmann::json report;
  };

  void TakeWarnings(std::string_view title, const StepLog& log);
  // Goals on size and precision of the model, once it is there.
  void JudgeModelGoals(base::Reporter& log);

  ForegroundReporter& reporter_;
  gq::v1::Job job_;
  std::vector<PipelineStep> steps_;
  std::vector<std::string> warnings_;
};

}  // namespace gq::worker
