#include "common/rpc/lease_run.h"

#include <algorithm>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/backoff.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/status_mapping.h"
#include "common/rpc/step_layout.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;
using base::LogLevel;
using base::MakeError;
using base::Reason;

constexpr int kMaxArtifacts = 10000;

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

gq::v1::StepResult ResultOf(gq::v1::AttemptState state, const absl::Status& status) {
  gq::v1::StepResult result;
  result.set_state(state);
  *result.mutable_failure() = ToFailure(status);
  return result;
}

// Errors of the user's making end the step; all others are a loss and the step is tried again.
gq::v1::StepResult ResultOf(const absl::Status& status) {
  const bool user =
      base::GetReasonInfo(base::GetReason(status)).failure_class == base::FailureClass::kUser;
  const bool cancelled = base::GetReason(status) == Reason::kCancelled;
  return ResultOf(user && !cancelled ? gq::v1::ATTEMPT_STATE_FAILED : gq::v1::ATTEMPT_STATE_LOST,
                  status);
}

gq::v1::StepResult ResultOf(StopReason reason, const gq::v1::Lease& lease) {
  switch (reason) {
    case StopReason::kCancelled:
      return ResultOf(gq::v1::ATTEMPT_STATE_CANCELLED,
                      MakeError(Reason::kCancelled, "the job was cancelled"));
    case StopReason::kTimeout:
      return ResultOf(gq::v1::ATTEMPT_STATE_FAILED,
                      MakeError(Reason::kTimeout,
                                base::StrCat("the step ran longer than its limit of ",
                                             base::FormatDuration(FromProto(lease.run_timeout()))),
                                "Raise --run-timeout, or make the work smaller."));
    case StopReason::kShutdown:
      return ResultOf(gq::v1::ATTEMPT_STATE_LOST,
                      MakeError(Reason::kWorkerLost, "the worker was stopped"));
    default:
      return ResultOf(gq::v1::ATTEMPT_STATE_LOST,
                      MakeError(Reason::kWorkerLost, "the worker lost the server"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseRun>> LeaseRun::Make(LeaseServices& services,
                                                         const gq::v1::Lease& lease) {
  // The callback needs the run, which needs the spool.
  auto target = std::make_shared<LeaseRun*>(nullptr);
  LogSpool::Options options;
  options.path = services.store.LogFile(lease);
  options.lease_id = lease.lease_id();
  options.generation = lease.generation();
  options.min_interval = services.options.log_min_interval;
  auto known = std::make_shared<absl::Mutex>();
  options.on_refused = [target, known] {
    absl::MutexLock lock(known.get());
    const auto set = [&] { return *target != nullptr; };
    known->Await(absl::Condition(&set));
    (*target)->Stop(StopReason::kLeaseLost);
  };
  GQ_ASSIGN_OR_RETURN(std::unique_ptr<LogSpool> log,
                      LogSpool::Open(std::move(options), services.channel));
  auto run = std::unique_ptr<LeaseRun>(new LeaseRun(services, lease, std::move(log)));
  absl::MutexLock lock(known.get());
  *target = run.get();
  return run;
}

absl::StatusOr<std::unique_ptr<LeaseRun>> LeaseRun::Start(LeaseServices& services,
                                                          const gq::v1::Lease& lease) {
  GQ_RETURN_IF_ERROR(services.store.Add(lease));
  GQ_ASSIGN_OR_RETURN(std::unique_ptr<LeaseRun> run, Make(services, lease));
  run->thread_ = std::thread([r = run.get()] { r->Work(); });
  return run;
}

absl::StatusOr<std::unique_ptr<LeaseRun>> LeaseRun::Recover(LeaseServices& services,
                                                            const StoredLease& stored) {
  services.store.RemoveWork(stored.lease);
  GQ_ASSIGN_OR_RETURN(std::unique_ptr<LeaseRun> run, Make(services, stored.lease));
  run->thread_ = std::thread([r = run.get(), result = stored.result, start = stored.start] {
    if (result) {
      r->Deliver(*result);
      return;
    }
    const auto lost =
        ResultOf(gq::v1::ATTEMPT_STATE_LOST,
                 MakeError(Reason::kWorkerLost, "the worker was restarted while the step ran"));
    r->LogEnd(lost, absl::Now() - start);
    r->Deliver(lost);
  });
  return run;
}

LeaseRun::LeaseRun(LeaseServices& services, gq::v1::Lease lease, std::unique_ptr<LogSpool> log)
    : services_(services),
      lease_(std::move(lease)),
      stub_(gq::v1::AgentService::NewStub(services.channel->grpc())),
      log_(std::move(log)) {
  report_.set_lease_id(lease_.lease_id());
  report_.set_generation(lease_.generation());
  report_.set_phase(gq::v1::LEASE_PHASE_PREPARING);
}

LeaseRun::~LeaseRun() {
  work_stop_.request_stop();
  delivery_stop_.request_stop();
  if (thread_.joinable()) thread_.join();
  log_.reset();
}

gq::v1::LeaseReport LeaseRun::Report() const {
  const int64_t acknowledged = log_->acknowledged();
  absl::MutexLock lock(&mutex_);
  gq::v1::LeaseReport report = report_;
  report.set_log_offset(acknowledged);
  return report;
}

StopReason LeaseRun::stop_reason() const {
  absl::MutexLock lock(&mutex_);
  return stop_reason_;
}

bool LeaseRun::work_over() const {
  absl::MutexLock lock(&mutex_);
  return work_over_;
}

bool LeaseRun::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

bool LeaseRun::abandoned() const {
  absl::MutexLock lock(&mutex_);
  return ended_ && stop_reason_ == StopReason::kLeaseLost;
}

void LeaseRun::Stop(StopReason reason) {
  {
    absl::MutexLock lock(&mutex_);
    stop_reason_ = std::max(stop_reason_, reason);
  }
  work_stop_.request_stop();
  if (reason == StopReason::kLeaseLost) {
    delivery_stop_.request_stop();
    services_.changed(/*urgent=*/true);
  }
}

void LeaseRun::CheckTimeout(absl::Duration now) {
  const absl::Duration limit = FromProto(lease_.run_timeout());
  if (limit <= absl::ZeroDuration() || now < start_ + limit) return;
  {
    absl::MutexLock lock(&mutex_);
    const gq::v1::LeasePhase phase = report_.phase();
    if (phase != gq::v1::LEASE_PHASE_PREPARING && phase != gq::v1::LEASE_PHASE_RUNNING) return;
  }
  Stop(StopReason::kTimeout);
}

void LeaseRun::SetPhase(gq::v1::LeasePhase phase) {
  {
    absl::MutexLock lock(&mutex_);
    report_.set_phase(phase);
  }
  services_.changed(/*urgent=*/false);
}

void LeaseRun::Work() {
  LogStart();
  gq::v1::StepResult result = Perform();
  if (const StopReason reason = stop_reason(); reason != StopReason::kNone) {
    result = ResultOf(reason, lease_);
  } else if (result.state() == gq::v1::ATTEMPT_STATE_SUCCEEDED ||
             result.state() == gq::v1::ATTEMPT_STATE_FAILED) {
    SetPhase(gq::v1::LEASE_PHASE_UPLOADING);
    const absl::Status status = UploadArtifacts(result);
    if (const StopReason late = stop_reason(); late != StopReason::kNone) {
      result = ResultOf(late, lease_);
    } else if (!status.ok()) {
      result = ResultOf(base::AddContext(status, "the results could not be stored"));
    }
  } else {
    result.clear_artifacts();
  }
  services_.store.RemoveWork(lease_);
  LogEnd(result, SteadyNow() - start_);
  Deliver(std::move(result));
}

// Keeps the result safe, waits for the log to be stored, then lets the session report.
void LeaseRun::Deliver(gq::v1::StepResult result) {
  if (const absl::Status status = services_.store.SaveResult(lease_, result); !status.ok()) {
    if (services_.options.reporter != nullptr) {
      services_.options.reporter->Warn("Session", base::FromAbsl(status.message()));
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    work_over_ = true;
  }
  log_->WaitUntilSent(absl::InfiniteDuration(), delivery_stop_.get_token());
  {
    absl::MutexLock lock(&mutex_);
    report_.set_phase(gq::v1::LEASE_PHASE_ENDED);
    *report_.mutable_result() = std::move(result);
    ended_ = true;
  }
  services_.changed(/*urgent=*/true);
}

BlobClient LeaseRun::Blobs() {
  BlobOptions options;
  options.stop = work_stop_.get_token();
  return BlobClient(services_.channel, options);
}

absl::Status LeaseRun::FetchInputs() {
  GQ_ASSIGN_OR_RETURN(const std::vector<StepInput> inputs, StepInputs(lease_));
  const fs::path work = services_.store.WorkFolder(lease_);
  BlobClient blobs = Blobs();
  for (const StepInput& input : inputs) {
    GQ_RETURN_IF_ERROR(services_.cache.Fetch(input.digest, work / input.path, blobs));
  }
  return absl::OkStatus();
}

gq::v1::StepResult LeaseRun::Perform() {
  if (const absl::Status status = FetchInputs(); !status.ok()) {
    return ResultOf(base::AddContext(status, "the inputs could not be fetched"));
  }
  SetPhase(gq::v1::LEASE_PHASE_RUNNING);
  absl::StatusOr<gq::v1::StepResult> result = services_.runner.Run(
      lease_, services_.store.WorkFolder(lease_), *this, work_stop_.get_token());
  if (!result.ok()) return ResultOf(gq::v1::ATTEMPT_STATE_LOST, result.status());
  return *std::move(result);
}

absl::Status LeaseRun::UploadArtifacts(gq::v1::StepResult& result) {
  const fs::path out = services_.store.WorkFolder(lease_) / "out";
  std::vector<fs::path> paths;
  for (const gq::v1::Artifact& artifact : result.artifacts()) {
    std::error_code error;
    const fs::path path = out / artifact.path();
    if (!IsSafeRelativePath(artifact.path()) || fs::is_symlink(path, error) ||
        !fs::is_regular_file(path, error)) {
      return MakeError(
          Reason::kInternal,
          base::StrCat("the step names a result that is not there: '", artifact.path(), "'"));
    }
    paths.push_back(path);
  }
  if (paths.size() > kMaxArtifacts) {
    return MakeError(Reason::kResourceLimit,
                     base::StrCat("the step left ", paths.size(), " files, at most ", kMaxArtifacts,
                                  " are kept"));
  }
  if (paths.empty()) return absl::OkStatus();
  BlobClient blobs = Blobs();
  GQ_ASSIGN_OR_RETURN(const std::vector<gq::v1::FileRef> files, blobs.UploadFiles(paths));
  for (size_t i = 0; i < files.size(); ++i) {
    gq::v1::Artifact& artifact = *result.mutable_artifacts(static_cast<int>(i));
    *artifact.mutable_digest() = files[i].digest();
    artifact.set_step_index(lease_.step_index());
  }
  return absl::OkStatus();
}

void LeaseRun::LogStart() {
  LogLine(
      LogLevel::kInfo, base::kBannerComponent,
      base::StrCat("[", lease_.step_index() + 1, "/", lease_.step_count(), "] ", lease_.title()));
  if (!lease_.last_failure().empty()) {
    // What ended the step before may not have counted: a restart of the server, a drained board.
    const std::string_view repeated = lease_.try_number() > 1 ? "" : ", begun again";
    LogLine(LogLevel::kInfo, base::kBannerComponent,
            base::StrCat("(attempt ", lease_.try_number(), " of ", lease_.max_tries(), repeated,
                         ": ", lease_.last_failure(), ")"));
  }
  LogLine(LogLevel::kInfo, base::kWorkflowComponent, base::StrCat(lease_.title(), " started"));
}

void LeaseRun::LogEnd(const gq::v1::StepResult& result, absl::Duration elapsed) {
  const std::string time = base::FormatDuration(elapsed);
  if (!result.skip_reason().empty()) {
    LogLine(LogLevel::kDone, base::kWorkflowComponent,
            base::StrCat(lease_.title(), " not run: ", result.skip_reason()));
  } else if (result.state() == gq::v1::ATTEMPT_STATE_SUCCEEDED) {
    LogLine(LogLevel::kDone, base::kWorkflowComponent,
            base::StrCat(lease_.title(), " completed (", time, ")"));
  } else {
    LogLine(LogLevel::kError, base::kWorkflowComponent,
            base::StrCat(lease_.title(), " failed (", time, "): ", result.failure().message(), " (",
                         result.failure().reason(), ")"));
  }
}

void LeaseRun::LogLine(LogLevel level, std::string_view component, std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  Log(base::FormatStoredLine(absl::Now(), level, component, line));
}

void LeaseRun::Log(std::string_view stored_lines) {
  const absl::Status status = log_->Append(stored_lines);
  if (status.ok()) return;
  if (services_.options.reporter != nullptr) {
    services_.options.reporter->Warn("Session", base::FromAbsl(status.message()));
  }
}

void LeaseRun::Progress(const gq::v1::StepProgress& progress) {
  {
    absl::MutexLock lock(&mutex_);
    *report_.mutable_progress() = progress;
  }
  services_.changed(/*urgent=*/false);
}

absl::Status LeaseRun::Iteration(const gq::v1::Iteration& iteration) {
  gq::v1::ReportIterationRequest request;
  request.set_lease_id(lease_.lease_id());
  request.set_generation(lease_.generation());
  *request.mutable_iteration() = iteration;
  Backoff backoff;
  while (!work_stop_.stop_requested()) {
    gq::v1::ReportIterationResponse response;
    grpc::ClientContext context;
    services_.channel->Prepare(context, kUnaryTimeout);
    const std::stop_callback on_stop(work_stop_.get_token(), [&context] { context.TryCancel(); });
    const grpc::Status status = stub_->ReportIteration(&context, request, &response);
    if (status.ok()) return absl::OkStatus();
    const absl::Status error = FromGrpcStatus(status);
    if (base::GetReason(error) == Reason::kLeaseLost) {
      Stop(StopReason::kLeaseLost);
      return error;
    }
    if (!SleepFor(backoff.Next(RetryDelay(status).value_or(absl::ZeroDuration())),
                  work_stop_.get_token())) {
      break;
    }
  }
  return MakeError(Reason::kCancelled, "the step is to stop");
}

}  // namespace gq::rpc
