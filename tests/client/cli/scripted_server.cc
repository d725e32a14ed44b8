#include "tests/client/cli/scripted_server.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/status_mapping.h"
#include "grpcpp/server_builder.h"

namespace gq::cli {
namespace {

using grpc::ServerContext;
using grpc::Status;

constexpr char kJobId[] = "01TESTJOB";

Status Refuse(base::Reason reason, std::string_view message, std::string_view hint = "") {
  return rpc::ToGrpcStatus(base::MakeError(reason, message, hint));
}

}  // namespace

class ScriptedServer::Jobs : public gq::v1::JobService::Service {
 public:
  explicit Jobs(ScriptedServer& server) : server_(server) {}

  Status CreateJob(ServerContext*, const gq::v1::CreateJobRequest* request,
                   gq::v1::Job* job) override {
    std::lock_guard lock(server_.mutex_);
    server_.created.push_back(*request);
    if (server_.create_failures > 0) {
      --server_.create_failures;
      return Refuse(base::Reason::kDraining, "the server is about to stop");
    }
    *job = server_.final_job;
    job->set_id(kJobId);
    job->set_state(gq::v1::JOB_STATE_QUEUED);
    return Status::OK;
  }

  Status GetJob(ServerContext*, const gq::v1::GetJobRequest* request, gq::v1::Job* job) override {
    if (request->id() != kJobId && request->id() != "@last" && request->id() != "01") {
      return Refuse(base::Reason::kNotFound, "no job " + request->id());
    }
    std::lock_guard lock(server_.mutex_);
    *job = server_.final_job;
    job->set_id(kJobId);
    if (server_.runs_until_cancelled && !server_.cancelled) {
      job->set_state(gq::v1::JOB_STATE_RUNNING);
    }
    return Status::OK;
  }

  Status ListJobs(ServerContext*, const gq::v1::ListJobsRequest*,
                  gq::v1::ListJobsResponse* response) override {
    *response->add_jobs() = server_.final_job;
    response->mutable_jobs(0)->set_id(kJobId);
    return Status::OK;
  }

  Status WatchJob(ServerContext* context, const gq::v1::WatchJobRequest*,
                  grpc::ServerWriter<gq::v1::JobEvent>* writer) override {
    gq::v1::JobEvent event;
    event.set_sequence(1);
    event.set_job_state(gq::v1::JOB_STATE_RUNNING);
    event.set_step_index(0);
    writer->Write(event);
    if (!WaitForEnd(context)) return Status::CANCELLED;
    event.set_sequence(2);
    event.set_job_state(server_.final_job.state());
    event.set_final(true);
    writer->Write(event);
    return Status::OK;
  }

  Status TailLog(ServerContext* context, const gq::v1::TailLogRequest* request,
                 grpc::ServerWriter<gq::v1::TailLogResponse>* writer) override {
    gq::v1::TailLogResponse response;
    response.set_attempt(1);
    int64_t offset = request->attempt() == 0 ? 0 : request->offset();
    const auto size = static_cast<int64_t>(server_.log.size());
    while (offset < size) {
      if (server_.break_log_after > 0 && offset >= server_.break_log_after) {
        server_.break_log_after = 0;
        return Status(grpc::StatusCode::UNAVAILABLE, "broken on purpose");
      }
      const std::string piece = server_.log.substr(static_cast<size_t>(offset), 50);
      response.set_offset(offset);
      response.set_data(piece);
      writer->Write(response);
      offset += static_cast<int64_t>(piece.size());
    }
    if (!WaitForEnd(context)) return Status::CANCELLED;
    response.clear_data();
    response.set_offset(offset);
    response.set_final(true);
    response.set_job_state(server_.final_job.state());
    writer->Write(response);
    return Status::OK;
  }

  Status CancelJob(ServerContext* context, const gq::v1::CancelJobRequest*,
                   gq::v1::Job* job) override {
    {
      std::lock_guard lock(server_.mutex_);
      server_.cancelled = true;
    }
    gq::v1::GetJobRequest request;
    request.set_id(kJobId);
    return GetJob(context, &request, job);
  }

  Status ListIterations(ServerContext*, const gq::v1::ListIterationsRequest*,
                        gq::v1::ListIterationsResponse*) override {
    return Status::OK;
  }

  Status ListArtifacts(ServerContext*, const gq::v1::ListArtifactsRequest*,
                       gq::v1::ListArtifactsResponse* response) override {
    for (const auto& [path, content] : server_.artifacts) {
      gq::v1::Artifact& artifact = *response->add_artifacts();
      artifact.set_path(path);
      *artifact.mutable_digest() = rpc::DigestOfBytes(content);
    }
    return Status::OK;
  }

  Status GetReport(ServerContext*, const gq::v1::GetReportRequest*,
                   gq::v1::GetReportResponse* response) override {
    response->set_report_json(server_.report);
    return Status::OK;
  }

 private:
  // False when the client has gone.
  bool WaitForEnd(ServerContext* context) {
    while (server_.runs_until_cancelled) {
      if (context->IsCancelled()) return false;
      {
        std::lock_guard lock(server_.mutex_);
        if (server_.cancelled) break;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }

  ScriptedServer& server_;
};

class ScriptedServer::Blobs : public gq::v1::BlobService::Service {
 public:
  explicit Blobs(ScriptedServer& server) : server_(server) {}

  Status FindMissingBlobs(ServerContext*, const gq::v1::FindMissingBlobsRequest* request,
                          gq::v1::FindMissingBlobsResponse* response) override {
    *response->mutable_missing() = request->digests();
    return Status::OK;
  }

  Status QueryWriteStatus(ServerContext*, const gq::v1::QueryWriteStatusRequest*,
                          gq::v1::QueryWriteStatusResponse*) override {
    return Status::OK;
  }

  Status Write(ServerContext*, grpc::ServerReader<gq::v1::WriteRequest>* reader,
               gq::v1::WriteResponse* response) override {
    std::string content;
    gq::v1::WriteRequest request;
    while (reader->Read(&request)) content += request.data();
    response->set_committed_size(static_cast<int64_t>(content.size()));
    std::lock_guard lock(server_.mutex_);
    server_.uploads.push_back(content);
    return Status::OK;
  }

  Status Read(ServerContext*, const gq::v1::ReadRequest* request,
              grpc::ServerWriter<gq::v1::ReadResponse>* writer) override {
    for (const auto& [path, content] : server_.artifacts) {
      if (rpc::DigestOfBytes(content).sha256() != request->digest().sha256()) continue;
      gq::v1::ReadResponse response;
      response.set_offset(request->offset());
      response.set_data(content.substr(static_cast<size_t>(request->offset())));
      writer->Write(response);
      return Status::OK;
    }
    return Refuse(base::Reason::kNotFound, "no such blob");
  }

 private:
  ScriptedServer& server_;
};

class ScriptedServer::Boards : public gq::v1::BoardService::Service {
 public:
  Status ListBoards(ServerContext*, const gq::v1::ListBoardsRequest*,
                    gq::v1::ListBoardsResponse* response) override {
    gq::v1::Board& board = *response->add_boards();
    board.set_name("ve2-sim");
    board.set_device("ve2");
    board.set_simulated(true);
    board.set_state(gq::v1::BOARD_STATE_IDLE);
    board.set_health(gq::v1::BOARD_HEALTH_GOOD);
    return Status::OK;
  }
};

ScriptedServer::ScriptedServer(const std::string& path)
    : path_(path),
      jobs_(std::make_unique<Jobs>(*this)),
      blobs_(std::make_unique<Blobs>(*this)),
      boards_(std::make_unique<Boards>()) {
  final_job.set_state(gq::v1::JOB_STATE_SUCCEEDED);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
  builder.RegisterService(jobs_.get());
  builder.RegisterService(blobs_.get());
  builder.RegisterService(boards_.get());
  server_ = builder.BuildAndStart();
}

ScriptedServer::~ScriptedServer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

}  // namespace gq::cli
