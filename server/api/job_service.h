// gq.v1.JobService.
#pragma once

#include "gq/v1/job_service.grpc.pb.h"
#include "server/api/call.h"

namespace gq::server {

class JobService final : public gq::v1::JobService::CallbackService {
 public:
  explicit JobService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const gq::v1::CreateJobRequest* request,
                                      gq::v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const gq::v1::GetJobRequest* request,
                                   gq::v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const gq::v1::ListJobsRequest* request,
                                     gq::v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<gq::v1::JobEvent>* WatchJob(
      grpc::CallbackServerContext* context, const gq::v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<gq::v1::TailLogResponse>* TailLog(
      grpc::CallbackServerContext* context, const gq::v1::TailLogRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const gq::v1::CancelJobRequest* request,
                                      gq::v1::Job* response) override;
  grpc::ServerUnaryReactor* RetryJob(grpc::CallbackServerContext* context,
                                     const gq::v1::RetryJobRequest* request,
                                     gq::v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const gq::v1::DeleteJobRequest* request,
                                      gq::v1::DeleteJobResponse* response) override;
  grpc::ServerUnaryReactor* ListIterations(grpc::CallbackServerContext* context,
                                           const gq::v1::ListIterationsRequest* request,
                                           gq::v1::ListIterationsResponse* response) override;
  grpc::ServerUnaryReactor* ListArtifacts(grpc::CallbackServerContext* context,
                                          const gq::v1::ListArtifactsRequest* request,
                                          gq::v1::ListArtifactsResponse* response) override;
  grpc::ServerUnaryReactor* GetReport(grpc::CallbackServerContext* context,
                                      const gq::v1::GetReportRequest* request,
                                      gq::v1::GetReportResponse* response) override;

 private:
  std::optional<absl::Status> Create(const Caller& caller, const gq::v1::CreateJobRequest& request,
                                     gq::v1::Job* response);
  // Fills `spec` from the job that `from_job` names, if any (from_job.h).
  absl::Status TakeFrom(const Caller& caller, gq::v1::JobSpec* spec);
  // The job, visible to the caller; `to_change` also asks for the right to change it.
  absl::StatusOr<gq::v1::Job> Find(const Caller& caller, std::string_view id, bool to_change);

  const Backend& backend_;
};

}  // namespace gq::server
