#include "client/cli/service_client.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::cli {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using gq::v1::JobService;

constexpr absl::Duration kCreatePatience = absl::Minutes(1);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(500);
constexpr absl::Duration kLongestRetryDelay = absl::Seconds(5);
constexpr int kPageSize = 1000;

// Waits, but not beyond a stop. True when it waited to the end.
bool WaitFor(absl::Duration delay, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, absl::ToChronoMilliseconds(delay), [] { return false; });
  return !stop.stop_requested();
}

absl::Status Stopped() { return MakeError(Reason::kCancelled, "interrupted"); }

}  // namespace

ServiceClient::ServiceClient(std::shared_ptr<rpc::Channel> channel)
    : channel_(std::move(channel)),
      jobs_(JobService::NewStub(channel_->grpc())),
      boards_(gq::v1::BoardService::NewStub(channel_->grpc())),
      admin_(gq::v1::AdminService::NewStub(channel_->grpc())) {}

absl::Status ServiceClient::Explain(const absl::Status& status) const {
  if (base::GetReason(status) != Reason::kServerUnreachable) return status;
  return MakeError(
      Reason::kServerUnreachable,
      StrCat("no answer from the server at ", channel_->address(), ": ", status.message()),
      "start one with 'gq-server', name another with --server, or run the command with "
      "--local; 'gq doctor' checks the connection");
}

absl::StatusOr<gq::v1::Job> ServiceClient::CreateJob(const gq::v1::CreateJobRequest& request,
                                                     std::stop_token stop) {
  const absl::Time deadline = absl::Now() + kCreatePatience;
  absl::Duration delay = kRetryDelay;
  while (true) {
    auto job = Call(&JobService::Stub::CreateJob, request, rpc::kCreateTimeout);
    if (job.ok() || !rpc::IsTransient(job.status())) return job;
    if (absl::Now() + delay > deadline) return job;
    if (!WaitFor(delay, stop)) return Stopped();
    delay = std::min(delay * 2, kLongestRetryDelay);
  }
}

absl::StatusOr<gq::v1::Job> ServiceClient::GetJob(const std::string& id) {
  gq::v1::GetJobRequest request;
  request.set_id(id);
  return Call(&JobService::Stub::GetJob, request);
}

absl::StatusOr<std::vector<gq::v1::Iteration>> ServiceClient::ListIterations(
    const std::string& id) {
  std::vector<gq::v1::Iteration> iterations;
  gq::v1::ListIterationsRequest request;
  request.set_id(id);
  request.set_page_size(kPageSize);
  do {
    GQ_ASSIGN_OR_RETURN(gq::v1::ListIterationsResponse page,
                        Call(&JobService::Stub::ListIterations, request));
    for (auto& iteration : *page.mutable_iterations()) iterations.push_back(std::move(iteration));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return iterations;
}

absl::StatusOr<std::vector<gq::v1::Artifact>> ServiceClient::ListArtifacts(const std::string& id) {
  gq::v1::ListArtifactsRequest request;
  request.set_id(id);
  GQ_ASSIGN_OR_RETURN(const gq::v1::ListArtifactsResponse response,
                      Call(&JobService::Stub::ListArtifacts, request));
  return std::vector<gq::v1::Artifact>(response.artifacts().begin(), response.artifacts().end());
}

absl::StatusOr<std::string> ServiceClient::GetReport(const std::string& id) {
  gq::v1::GetReportRequest request;
  request.set_id(id);
  GQ_ASSIGN_OR_RETURN(gq::v1::GetReportResponse response,
                      Call(&JobService::Stub::GetReport, request));
  return std::move(*response.mutable_report_json());
}

absl::Status ServiceClient::WatchJob(const std::string& id,
                                     const std::function<void(const gq::v1::JobEvent&)>& sink,
                                     std::stop_token stop) {
  gq::v1::WatchJobRequest request;
  request.set_id(id);
  absl::Duration delay = kRetryDelay;
  while (!stop.stop_requested()) {
    grpc::ClientContext context;
    channel_->Prepare(context, rpc::kStreamTimeout);
    std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    auto reader = jobs_->WatchJob(&context, request);
    gq::v1::JobEvent event;
    while (reader->Read(&event)) {
      delay = kRetryDelay;
      // A number of 0 is a sign of life or progress, which is not kept.
      if (event.sequence() != 0) {
        if (event.sequence() < request.from_sequence()) continue;
        request.set_from_sequence(event.sequence() + 1);
      }
      sink(event);
      if (event.final()) return absl::OkStatus();
    }
    const grpc::Status status = reader->Finish();
    if (stop.stop_requested()) break;
    if (!status.ok()) {
      const absl::Status error = rpc::FromGrpcStatus(status);
      if (!rpc::IsTransient(error)) return error;
    }
    if (!WaitFor(delay, stop)) break;
    delay = std::min(delay * 2, kLongestRetryDelay);
  }
  return Stopped();
}

}  // namespace gq::cli
