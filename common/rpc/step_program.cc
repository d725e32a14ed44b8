#include "common/rpc/step_program.h"

#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/rpc/status_mapping.h"

namespace gq::rpc {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;

constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);

std::atomic<bool> terminated = false;
static_assert(std::atomic<bool>::is_always_lock_free);

absl::Status ListArtifacts(const fs::path& folder, gq::v1::StepResult& result) {
  result.clear_artifacts();
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  std::vector<std::string> paths;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_symlink() || !it->is_regular_file()) continue;
    paths.push_back(it->path().lexically_relative(folder).string());
  }
  if (error) {
    return MakeError(Reason::kFileUnreadable, base::StrCat(folder.string(), ": ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  for (std::string& path : paths) result.add_artifacts()->set_path(std::move(path));
  return absl::OkStatus();
}

gq::v1::StepResult ErrorResult(const absl::Status& status) {
  gq::v1::StepResult result;
  result.set_state(base::GetReason(status) == Reason::kCancelled ? gq::v1::ATTEMPT_STATE_CANCELLED
                                                                 : gq::v1::ATTEMPT_STATE_FAILED);
  *result.mutable_failure() = ToFailure(status);
  return result;
}

absl::StatusOr<gq::v1::StepResult> CallStep(const StepFunction& step, StepContext& context) {
  try {
    return step(context);
  } catch (const std::bad_alloc&) {
    return MakeError(Reason::kResourceLimit, "the step ran out of memory",
                     "Give the worker more memory, or use a smaller model or batch.");
  } catch (const std::exception& e) {
    return MakeError(Reason::kInternal, base::StrCat("the step failed: ", e.what()));
  }
}

absl::Status RunStep(const fs::path& work_dir, const StepFunction& step) {
  GQ_ASSIGN_OR_RETURN(const std::string bytes, base::ReadFile(work_dir / "lease.pb"));
  gq::v1::Lease lease;
  if (!lease.ParseFromString(bytes)) {
    return MakeError(Reason::kInternal, "lease.pb does not hold a lease");
  }
  const StepFiles files(work_dir, lease);
  const std::unique_ptr<StepChannel> channel = StepChannel::FromEnvironment();
  StepReporter::InstallTerminationHandler();
  StepReporter reporter(STDOUT_FILENO, *channel);
  StepContext context{lease, files, reporter, *channel};

  absl::StatusOr<gq::v1::StepResult> outcome = CallStep(step, context);
  gq::v1::StepResult result = outcome.ok() ? *std::move(outcome) : ErrorResult(outcome.status());
  if (result.state() == gq::v1::ATTEMPT_STATE_UNSPECIFIED) {
    result.set_state(gq::v1::ATTEMPT_STATE_SUCCEEDED);
  }
  GQ_RETURN_IF_ERROR(ListArtifacts(work_dir / "out", result));
  return base::WriteFileAtomically(work_dir / "result.pb", result.SerializeAsString());
}

}  // namespace

void StepReporter::InstallTerminationHandler() {
  struct sigaction action = {};
  action.sa_handler = [](int) { terminated = true; };
  ::sigaction(SIGTERM, &action, nullptr);
}

void StepReporter::Log(base::LogLevel level, std::string_view component, std::string_view text) {
  const std::string line = base::FormatStoredLine(absl::Now(), level, component, text);
  absl::MutexLock lock(&mutex_);
  // Nobody reads any more: the lease is over, and with it this process.
  (void)base::WriteAll(log_fd_, line, "log");
}

void StepReporter::Report(const base::Progress& progress) {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    const bool last = progress.total > 0 && progress.done >= progress.total;
    if (!last && now - last_progress_ < kProgressInterval) return;
    last_progress_ = now;
  }
  gq::v1::StepProgress message;
  message.set_component(std::string(progress.component));
  message.set_done(progress.done);
  message.set_total(progress.total);
  message.set_unit(std::string(progress.unit));
  channel_.SendProgress(message);
}

bool StepReporter::Cancelled() const { return terminated; }

int RunStepProgram(const fs::path& work_dir, const StepFunction& step) {
  const absl::Status status = RunStep(fs::absolute(work_dir), step);
  if (status.ok()) return 0;
  const std::string line = base::FormatStoredLine(absl::Now(), base::LogLevel::kError, "Step",
                                                  base::FromAbsl(status.message()));
  (void)base::WriteAll(STDERR_FILENO, line, "log");
  return base::GetReasonInfo(base::GetReason(status)).exit_code;
}

}  // namespace gq::rpc
