#include "server/api/job_service.h"

#include <string>
#include <vector>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/report/merge.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/api/from_job.h"
#include "server/api/page_token.h"
#include "server/ledger/enum_text.h"
#include "server/scheduler/job_plan.h"
#include "spdlog/spdlog.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr size_t kMaxRequestId = 100;

// The same bytes for the same message, also where it holds maps.
std::string StableBytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// What a page token of a list is tied to.
std::string ListArguments(gq::v1::ListJobsRequest request) {
  request.clear_page_token();
  request.clear_page_size();
  return StableBytes(request);
}

}  // namespace

absl::StatusOr<gq::v1::Job> JobService::Find(const Caller& caller, std::string_view id,
                                             bool to_change) {
  GQ_ASSIGN_OR_RETURN(const std::string full, backend_.ledger.ResolveJobId(caller.AsViewer(), id));
  GQ_ASSIGN_OR_RETURN(gq::v1::Job job, backend_.ledger.GetJob(full));
  if (to_change) {
    GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kSubmitter));
    if (job.principal() != caller.principal.name && !caller.principal.IsOperator()) {
      return MakeError(Reason::kPermissionDenied,
                       StrCat("job ", full, " is ", job.principal(), "'s"),
                       "only its owner, an operator or an administrator can change it");
    }
  }
  return job;
}

absl::Status JobService::TakeFrom(const Caller& caller, gq::v1::JobSpec* spec) {
  if (spec->from_job().empty()) return absl::OkStatus();
  GQ_ASSIGN_OR_RETURN(const gq::v1::Job from, Find(caller, spec->from_job(), /*to_change=*/false));
  GQ_ASSIGN_OR_RETURN(const std::vector<gq::v1::Artifact> artifacts,
                      backend_.ledger.ListArtifacts(from.id()));
  return TakeFromJob(from, artifacts, spec);
}

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const gq::v1::CreateJobRequest* request,
                                                gq::v1::Job* response) {
  return RunCallWhenReady(
      backend_, context, "JobService.CreateJob",
      [=, this](const Caller& caller) { return Create(caller, *request, response); });
}

std::optional<absl::Status> JobService::Create(const Caller& caller,
                                               const gq::v1::CreateJobRequest& request,
                                               gq::v1::Job* response) {
  if (absl::Status status = RequireRole(caller.principal, Role::kSubmitter); !status.ok()) {
    return status;
  }
  if (request.request_id().size() > kMaxRequestId) {
    return MakeError(Reason::kInvalidFlag, "request_id is longer than 100 bytes", "use a UUID");
  }
  const std::string digest = base::Sha256Hex(StableBytes(request.job()));
  if (!request.request_id().empty()) {
    absl::StatusOr<gq::v1::Job> earlier =
        backend_.ledger.FindSubmitted(caller.principal.name, request.request_id(), digest);
    if (earlier.ok()) {
      *response = *std::move(earlier);
      return absl::OkStatus();
    }
    if (base::GetReason(earlier.status()) != Reason::kNotFound) return earlier.status();
  }
  if (backend_.scheduler.draining()) {
    return MakeError(Reason::kDraining, "the server is about to stop and takes no new jobs",
                     "try again in a few seconds");
  }
  if (backend_.blobs.FreeBytes() < backend_.limits.min_free_bytes) {
    return MakeError(Reason::kDiskFull, "the server's disk is almost full, it takes no new jobs",
                     "delete old jobs and run `gq admin gc`, or try again later");
  }
  NewJob job;
  job.spec = request.job();
  if (absl::Status status = TakeFrom(caller, &job.spec); !status.ok()) return status;
  if (absl::Status status = CompleteSpec(&job.spec); !status.ok()) return status;
  if (job.spec.device().empty()) {
    job.spec.set_device(backend_.scheduler.DeviceForScheme(job.spec.scheme()));
  }
  job.steps = PlanSteps(job.spec);
  if (!job.spec.wait_for_board()) {
    if (absl::Status status = backend_.scheduler.CheckRunnable(job.steps); !status.ok()) {
      if (backend_.scheduler.LocalAgentsStarting()) return std::nullopt;
      return status;
    }
  }
  job.request_id = request.request_id();
  job.request_digest = digest;
  job.blobs = BlobsOf(job.spec);
  job.actor = caller.AsActor();
  if (request.validate_only()) {
    *response->mutable_spec() = job.spec;
    response->set_state(gq::v1::JOB_STATE_QUEUED);
    response->set_principal(caller.principal.name);
    for (size_t i = 0; i < job.steps.size(); ++i) {
      gq::v1::Step* step = response->add_steps();
      step->set_index(static_cast<int>(i));
      step->set_kind(job.steps[i].kind);
      step->set_title(job.steps[i].title);
      step->set_state(gq::v1::STEP_STATE_WAITING);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<gq::v1::Job> created = backend_.ledger.CreateJob(job);
  if (!created.ok()) return created.status();
  spdlog::info("job created job={} principal={} request={} kind={}", created->id(),
               caller.principal.name, request.request_id(),
               gq::v1::JobKind_Name(created->spec().kind()));
  backend_.scheduler.JobChanged(*created);
  *response = *std::move(created);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const gq::v1::GetJobRequest* request,
                                             gq::v1::Job* response) {
  return RunCall(backend_, context, "JobService.GetJob",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_ASSIGN_OR_RETURN(*response, Find(caller, request->id(), false));
                   backend_.scheduler.Enrich(response);
                   return absl::OkStatus();
                 });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const gq::v1::ListJobsRequest* request,
                                               gq::v1::ListJobsResponse* response) {
  return RunCall(
      backend_, context, "JobService.ListJobs", [=, this](const Caller& caller) -> absl::Status {
        const std::string arguments = ListArguments(*request);
        JobFilter filter;
        filter.viewer = caller.AsViewer();
        filter.principal = request->principal();
        filter.name_contains = request->name_contains();
        for (const auto& [key, value] : request->labels()) filter.labels.emplace_back(key, value);
        for (const int state : request->states()) {
          if (!gq::v1::JobState_IsValid(state) || state == gq::v1::JOB_STATE_UNSPECIFIED) {
            return MakeError(Reason::kInvalidFlag, StrCat("`states`: ", state, " is no state"),
                             "leave `states` out for the jobs in every state");
          }
          filter.states.push_back(static_cast<gq::v1::JobState>(state));
        }
        GQ_ASSIGN_OR_RETURN(const int size, PageSize(request->page_size()));
        GQ_ASSIGN_OR_RETURN(filter.before_id, ReadPageToken(request->page_token(), arguments));
        filter.limit = size + 1;
        GQ_ASSIGN_OR_RETURN(auto jobs, backend_.ledger.ListJobs(filter));
        const bool more = static_cast<int>(jobs.size()) > size;
        if (more) jobs.pop_back();
        backend_.scheduler.EnrichAll({jobs.data(), jobs.size()});
        for (gq::v1::Job& job : jobs) *response->add_jobs() = std::move(job);
        if (more) {
          response->set_next_page_token(
              MakePageToken(response->jobs(response->jobs_size() - 1).id(), arguments));
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const gq::v1::CancelJobRequest* request,
                                                gq::v1::Job* response) {
  return RunCall(
      backend_, context, "JobService.CancelJob", [=, this](const Caller& caller) -> absl::Status {
        GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, Find(caller, request->id(), true));
        GQ_ASSIGN_OR_RETURN(*response, backend_.ledger.RequestCancel(caller.AsActor(), job.id(),
                                                                     request->reason()));
        backend_.scheduler.JobChanged(*response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* JobService::RetryJob(grpc::CallbackServerContext* context,
                                               const gq::v1::RetryJobRequest* request,
                                               gq::v1::Job* response) {
  return RunCall(
      backend_, context, "JobService.RetryJob", [=, this](const Caller& caller) -> absl::Status {
        GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, Find(caller, request->id(), true));
        GQ_ASSIGN_OR_RETURN(*response, backend_.ledger.RetryJob(caller.AsActor(), job.id()));
        backend_.scheduler.JobChanged(*response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const gq::v1::DeleteJobRequest* request,
                                                gq::v1::DeleteJobResponse*) {
  return RunCall(backend_, context, "JobService.DeleteJob",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, Find(caller, request->id(), true));
                   GQ_RETURN_IF_ERROR(backend_.ledger.DeleteJob(caller.AsActor(), job.id()));
                   backend_.logs.Remove(job.id());
                   backend_.scheduler.JobChanged(job);
                   return absl::OkStatus();
                 });
}

grpc::ServerUnaryReactor* JobService::ListIterations(grpc::CallbackServerContext* context,
                                                     const gq::v1::ListIterationsRequest* request,
                                                     gq::v1::ListIterationsResponse* response) {
  return RunCall(
      backend_, context, "JobService.ListIterations",
      [=, this](const Caller& caller) -> absl::Status {
        GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, Find(caller, request->id(), false));
        GQ_ASSIGN_OR_RETURN(const int size, PageSize(request->page_size()));
        GQ_ASSIGN_OR_RETURN(const std::string key, ReadPageToken(request->page_token(), job.id()));
        const int after = key.empty() ? 0 : std::stoi(key);
        GQ_ASSIGN_OR_RETURN(auto iterations,
                            backend_.ledger.ListIterations(job.id(), after, size + 1));
        const bool more = static_cast<int>(iterations.size()) > size;
        if (more) iterations.pop_back();
        for (auto& iteration : iterations) *response->add_iterations() = std::move(iteration);
        if (more) {
          const auto& last = response->iterations(response->iterations_size() - 1);
          response->set_next_page_token(MakePageToken(std::to_string(last.number()), job.id()));
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* JobService::ListArtifacts(grpc::CallbackServerContext* context,
                                                    const gq::v1::ListArtifactsRequest* request,
                                                    gq::v1::ListArtifactsResponse* response) {
  return RunCall(backend_, context, "JobService.ListArtifacts",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_ASSIGN_OR_RETURN(const gq::v1::Job job, Find(caller, request->id(), false));
                   GQ_ASSIGN_OR_RETURN(auto artifacts, backend_.ledger.ListArtifacts(job.id()));
                   for (auto& artifact : artifacts) {
                     *response->add_artifacts() = std::move(artifact);
                   }
                   return absl::OkStatus();
                 });
}

grpc::ServerUnaryReactor* JobService::GetReport(grpc::CallbackServerContext* context,
                                                const gq::v1::GetReportRequest* request,
                                                gq::v1::GetReportResponse* response) {
  return RunCall(backend_, context, "JobService.GetReport",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_ASSIGN_OR_RETURN(gq::v1::Job job, Find(caller, request->id(), false));
                   backend_.scheduler.Enrich(&job);
                   GQ_ASSIGN_OR_RETURN(const auto reports, backend_.ledger.ListReports(job.id()));
                   std::vector<report::StepPart> parts;
                   for (const auto& [step, json] : reports) parts.push_back({step, json});
                   response->set_report_json(report::MergeReport(job, parts));
                   return absl::OkStatus();
                 });
}

}  // namespace gq::server
