#include "server/worker/pipeline.h"

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/performance_target.h"
#include "common/report/merge.h"

namespace gq::worker {
namespace {

using base::LogLevel;
using base::StrCat;

google::protobuf::Timestamp Now() {
  const int64_t nanos = absl::GetCurrentTimeNanos();
  google::protobuf::Timestamp time;
  time.set_seconds(nanos / 1'000'000'000);
  time.set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return time;
}

absl::StatusOr<nlohmann::json> Call(const Pipeline::StepFunction& function, StepLog& log) {
  try {
    return function(log);
  } catch (const std::bad_alloc&) {
    return base::MakeError(base::Reason::kResourceLimit, "there is not enough memory",
                           "use a smaller model or batch, or a host with more memory");
  } catch (const std::exception& e) {
    return base::MakeError(base::Reason::kInternal, StrCat("unexpected failure: ", e.what()));
  }
}

}  // namespace

Pipeline::Pipeline(gq::v1::JobSpec spec, ForegroundReporter& reporter) : reporter_(reporter) {
  *job_.mutable_spec() = std::move(spec);
  job_.set_id("local");
  job_.set_state(gq::v1::JOB_STATE_RUNNING);
  *job_.mutable_create_time() = Now();
}

void Pipeline::Add(gq::v1::StepKind kind, std::string title, StepFunction function) {
  gq::v1::Step* step = job_.add_steps();
  step->set_index(job_.steps_size() - 1);
  step->set_kind(kind);
  step->set_title(title);
  step->set_state(gq::v1::STEP_STATE_WAITING);
  steps_.push_back({kind, std::move(title), std::move(function), {}});
}

absl::Status Pipeline::Run() {
  *job_.mutable_start_time() = Now();
  for (size_t i = 0; i < steps_.size(); ++i) {
    PipelineStep& part = steps_[i];
    gq::v1::Step& step = *job_.mutable_steps(static_cast<int>(i));
    gq::v1::Attempt& attempt = *step.add_attempts();
    attempt.set_number(static_cast<int>(i) + 1);
    *attempt.mutable_start_time() = Now();
    step.set_state(gq::v1::STEP_STATE_RUNNING);
    const auto begin = std::chrono::steady_clock::now();
    reporter_.Log(LogLevel::kInfo, base::kBannerComponent,
                  StrCat("[", i + 1, "/", steps_.size(), "] ", part.title));
    reporter_.Log(LogLevel::kInfo, base::kWorkflowComponent, StrCat(part.title, " started"));

    StepLog log(reporter_);
    absl::StatusOr<nlohmann::json> outcome = Call(part.function, log);
    const std::string took =
        base::FormatDuration(absl::FromChrono(std::chrono::steady_clock::now() - begin));
    *attempt.mutable_end_time() = Now();
    if (!outcome.ok()) {
      TakeWarnings(part.title, log);
      const absl::Status& error = outcome.status();
      attempt.set_state(gq::v1::ATTEMPT_STATE_FAILED);
      step.set_state(gq::v1::STEP_STATE_FAILED);
      job_.set_state(gq::v1::JOB_STATE_FAILED);
      *job_.mutable_end_time() = Now();
      reporter_.Log(LogLevel::kError, base::kWorkflowComponent,
                    StrCat(part.title, " failed (", took, "): ", base::FromAbsl(error.message()),
                           " (", base::ReasonName(base::GetReason(error)), ")"));
      return error;
    }
    part.report = *std::move(outcome);
    if (i + 1 == steps_.size()) JudgeModelGoals(log);
    TakeWarnings(part.title, log);
    attempt.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
    step.set_state(gq::v1::STEP_STATE_SUCCEEDED);
    reporter_.Log(LogLevel::kDone, base::kWorkflowComponent,
                  StrCat(part.title, " completed (", took, ")"));
  }
  job_.set_state(gq::v1::JOB_STATE_SUCCEEDED);
  *job_.mutable_end_time() = Now();
  return absl::OkStatus();
}

void Pipeline::TakeWarnings(std::string_view title, const StepLog& log) {
  for (const std::string& warning : log.warnings()) {
    warnings_.push_back(StrCat(title, ": ", warning));
  }
}

void Pipeline::JudgeModelGoals(base::Reporter& log) {
  if (job_.spec().target_performance().empty()) return;
  const auto ordered = [](const nlohmann::json& part) {
    return nlohmann::ordered_json::parse(
        part.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), nullptr, false);
  };
  std::vector<nlohmann::ordered_json> earlier;
  for (size_t i = 0; i + 1 < steps_.size(); ++i) earlier.push_back(ordered(steps_[i].report));
  nlohmann::json& last = steps_.back().report;
  nlohmann::ordered_json own = ordered(last);
  if (!job::JudgeTargets(job_.spec(), earlier, {job::MeasuredBy::kQuantize}, log, own)) {
    SetVerdict(gq::v1::VERDICT_GOAL_NOT_MET);
  }
  last = nlohmann::json::parse(own.dump(), nullptr, false);
}

std::string Pipeline::Report() const {
  std::vector<report::StepPart> parts;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].report.is_null()) continue;
    parts.push_back(
        {static_cast<int32_t>(i),
         steps_[i].report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
  }
  return report::MergeReport(job_, parts);
}

const nlohmann::json* Pipeline::Part(gq::v1::StepKind kind) const {
  for (const PipelineStep& part : steps_) {
    if (part.kind == kind && !part.report.is_null()) return &part.report;
  }
  return nullptr;
}

}  // namespace gq::worker
